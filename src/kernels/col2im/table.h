#pragma once
// The col2im kernels there are; they agree bit for bit, the last is the best.
#include <span>

#include "kernels/col2im/kernel.h"

namespace requant {

struct Col2ImF32Kernel {
  const char* name;  ///< unique among the rows
  const char* isa;   ///< "scalar" or "simd128"
  void (*run)(const Col2ImF32Params* params);
};

std::span<const Col2ImF32Kernel> Col2ImF32Kernels();

// The scalar row (reference.cpp).
void Col2ImF32Reference(const Col2ImF32Params* p);

}  // namespace requant
