#pragma once
// The table of kernels for the operands of attention. The rows of one function agree bit for bit;
// the last is the best.
#include <cstdint>
#include <span>

#include "kernels/attention_codes/kernel.h"

namespace requant {

enum class AttentionCodesOp : uint8_t { kTokens, kShares };

struct AttentionCodesKernel {
  const char* name;  ///< unique among the rows
  const char* isa;   ///< "scalar" or "simd128"
  AttentionCodesOp op;
  void (*run)(const AttentionCodesParams* params);
};

std::span<const AttentionCodesKernel> AttentionCodesKernels();

/// The best row of a function.
void (*AttentionCodesRow(AttentionCodesOp op))(const AttentionCodesParams* params);

}  // namespace requant
