#pragma once
// The table of layer normalization kernels. All rows agree bit for bit; the last is the best.
#include <span>

#include "kernels/layer_norm/kernel.h"

namespace requant {

struct LayerNormF32Kernel {
  const char* name;  ///< unique among the rows
  const char* isa;   ///< "scalar" or "simd128"
  void (*run)(const LayerNormF32Params* params);
};

std::span<const LayerNormF32Kernel> LayerNormF32Kernels();

}  // namespace requant
