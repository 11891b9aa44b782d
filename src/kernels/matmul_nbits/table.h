#pragma once
// The kernels for matrix products with block-wise 4-bit weights: explicit rows, references first.
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/matmul_nbits/kernel.h"

namespace requant {

/// As the operator holds them: codes [n][blocks][block / 2] with the first of two in the low half,
/// scales [n][blocks], zero points [n][(blocks + 1) / 2] packed alike, or null for 8.
struct MatMulNBitsWeights {
  int32_t k = 0, n = 0, block = 32;
  const uint8_t* codes = nullptr;
  const float* scales = nullptr;
  const uint8_t* zero_points = nullptr;
};

struct MatMulNBitsKernel {
  const char* name;          ///< unique among the rows
  const char* isa;           ///< "scalar", "simd128", or "relaxed"
  const char* (*missing)();  ///< what this machine lacks for this row, or null; null: nothing
  bool integer;              ///< brings the left-hand side to eight bits
  /// Bytes; both sizes throw Error when they overflow. The packed form is that of blocking.h for
  /// all.
  size_t (*packed_size)(const MatMulNBitsWeights& weights);
  void (*pack_weights)(const MatMulNBitsWeights& weights, void* packed);
  size_t (*workspace_size)(const MatMulNBitsParams& params);
  void (*run)(const MatMulNBitsParams* params);
};

/// Float rows and integer rows; those of a kind that are integer agree bit for bit.
std::span<const MatMulNBitsKernel> MatMulNBitsKernels();

// The scalar rows (reference.cpp).
void MatMulNBitsF32Reference(const MatMulNBitsParams* p);
void MatMulNBitsQ8Reference(const MatMulNBitsParams* p);

}  // namespace requant
