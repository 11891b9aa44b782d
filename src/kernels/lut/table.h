#pragma once
// The table lookup kernels there are; the scalar row defines the result, the last row is the best.
#include <span>

#include "kernels/lut/kernel.h"

namespace requant {

struct LutKernel {
  const char* name;  ///< unique among the rows
  const char* isa;   ///< "scalar" or "simd128"
  void (*run)(const LutParams* params);
};
struct LutF32Kernel {
  const char* name;
  const char* isa;
  void (*run)(const LutF32Params* params);
};

std::span<const LutKernel> LutKernels();
std::span<const LutF32Kernel> LutF32Kernels();

// The scalar rows (reference.cpp).
void LutReference(const LutParams* p);
void LutF32Reference(const LutF32Params* p);

}  // namespace requant
