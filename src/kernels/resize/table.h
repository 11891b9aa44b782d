#pragma once
// The table of resizing kernels. All rows agree bit for bit; the last is the best.
#include <span>

#include "kernels/resize/kernel.h"

namespace requant {

struct ResizeLinearF32Kernel {
  const char* name;  ///< unique among the rows
  const char* isa;   ///< "scalar" or "simd128"
  void (*run)(const ResizeLinearF32Params* params);
};

std::span<const ResizeLinearF32Kernel> ResizeLinearF32Kernels();

/// Resizes by copying pixels. It has no vector row, since it only copies.
void ResizeNearest(const ResizeNearestParams* p);

}  // namespace requant
