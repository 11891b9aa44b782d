#pragma once
// The table of kernels for matrix products with block-wise weights of 4 or 8 bits, references
// first.
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/matmul_nbits/kernel.h"

namespace requant {

/// Weights in the operator's form: codes [n][blocks][block * bits / 8], with 4 bits two to a byte,
/// the first in the low half; scales [n][blocks]; zero points [n][(blocks * bits + 7) / 8] packed
/// alike, or null when all are 2^(bits - 1).
struct MatMulNBitsWeights {
  int32_t k = 0, n = 0, block = 32, bits = 4;
  const uint8_t* codes = nullptr;
  const float* scales = nullptr;
  const uint8_t* zero_points = nullptr;
};

struct MatMulNBitsKernel {
  const char* name;  ///< unique among the rows
  const char* isa;   ///< "scalar", "simd128", or "relaxed"
  /// names what this machine lacks for the row, or gives null; a null pointer lacks nothing
  const char* (*missing)();
  bool integer;  ///< quantizes the left-hand side to eight bits; takes weights of 4 bits alone
  /// Sizes in bytes; both functions throw Error when they overflow. All rows share the packed form
  /// of blocking.h.
  size_t (*packed_size)(const MatMulNBitsWeights& weights);
  void (*pack_weights)(const MatMulNBitsWeights& weights, void* packed);
  size_t (*workspace_size)(const MatMulNBitsParams& params);
  void (*run)(const MatMulNBitsParams* params);
};

/// Lists float rows and integer rows; the integer rows of one kind agree bit for bit.
std::span<const MatMulNBitsKernel> MatMulNBitsKernels();

}  // namespace requant
