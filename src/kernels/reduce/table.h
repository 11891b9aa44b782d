#pragma once
// The table of reduction kernels. All rows agree bit for bit; the last is the best.
#include <span>

#include "kernels/reduce/kernel.h"

namespace requant {

struct ReduceF32Kernel {
  const char* name;  ///< unique among the rows
  const char* isa;   ///< "scalar" or "simd128"
  void (*run)(const ReduceF32Params* params);
};

std::span<const ReduceF32Kernel> ReduceF32Kernels();

}  // namespace requant
