#pragma once
// The table of lookup kernels. The scalar row defines the result; the last row is the best.
#include <span>

#include "kernels/lut/kernel.h"

namespace requant {

struct LutKernel {
  const char* name;  ///< unique among the rows
  const char* isa;   ///< "scalar" or "simd128"
  void (*run)(const LutParams* params);
};

struct LutBitsKernel {
  const char* name;
  const char* isa;
  const char* (*missing)();
  void (*run)(const LutBitsParams* params);
};

std::span<const LutKernel> LutKernels();
std::span<const LutBitsKernel> LutBitsKernels();

}  // namespace requant
