#pragma once
// The resizing kernels there are; the rows of a family agree bit for bit, the last is the best.
#include <span>

#include "kernels/resize/kernel.h"

namespace requant {

struct ResizeLinearF32Kernel {
  const char* name;  ///< unique among the rows
  const char* isa;   ///< "scalar" or "simd128"
  void (*run)(const ResizeLinearF32Params* params);
};

std::span<const ResizeLinearF32Kernel> ResizeLinearF32Kernels();

/// Copies only, so there is no vector row.
void ResizeNearest(const ResizeNearestParams* p);

// The scalar row (reference.cpp).
void ResizeLinearF32Reference(const ResizeLinearF32Params* p);

}  // namespace requant
