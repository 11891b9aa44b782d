#pragma once
// The table of kernels for coded rows. The rows of one function agree bit for bit; the last is the
// best.
#include <cstdint>
#include <span>

#include "kernels/token_codes/kernel.h"

namespace requant {

enum class TokenCodesOp : uint8_t { kEncode, kDecode };

struct TokenCodesKernel {
  const char* name;  ///< unique among the rows
  const char* isa;   ///< "scalar" or "simd128"
  TokenCodesOp op;
  void (*run)(const TokenCodesParams* params);
};

std::span<const TokenCodesKernel> TokenCodesKernels();

/// The best row of a function.
void (*TokenCodesRow(TokenCodesOp op))(const TokenCodesParams* params);

}  // namespace requant
