#pragma once
// The table of softmax kernels. The rows of one function agree bit for bit; the last is the best.
#include <cstdint>
#include <span>

#include "kernels/softmax/kernel.h"

namespace requant {

enum class SoftmaxOp : uint8_t { kSoftmax, kLogSoftmax, kFastSoftmax };

struct SoftmaxF32Kernel {
  const char* name;  ///< unique among the rows
  const char* isa;   ///< "scalar" or "simd128"
  SoftmaxOp op;
  void (*run)(const SoftmaxF32Params* params);
};

std::span<const SoftmaxF32Kernel> SoftmaxF32Kernels();

}  // namespace requant
