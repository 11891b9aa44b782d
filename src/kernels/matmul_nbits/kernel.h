#pragma once
// Matrix product of float32 rows with weights of 4 or 8 bits that have a scale for every block of k
// (com.microsoft::MatMulNBits). Freestanding.
#include <stddef.h>
#include <stdint.h>

#include "kernels/import.h"
#include "kernels/rows.h"

namespace requant {

/// y[m][n] = sum over k of a[m][k] * w[n][k] with
///   w[n][k] = (code - zero_point) * scale,   one scale and zero point for each n and block of k.
///
/// The float rows compute this formula. The integer rows, for 4 bits alone, first quantize every
/// chunk of at most 32 values of `a` to eight bits (scale max|a| / 127, half to even), multiply
/// integers exactly, and add
///   float(sum(a' * code) - zero_point * sum(a')) * (scale of w * scale of a)
/// chunk by chunk, which gives the same bits on every machine. An infinity or NaN in a row makes
/// its outputs NaN.
struct MatMulNBitsParams {
  const float* a = nullptr;       ///< [rows][k]
  const void* weights = nullptr;  ///< packed by the same row's pack_weights
  float* out = nullptr;           ///< [rows][n]
  void* workspace = nullptr;  ///< workspace_size bytes, 16-byte aligned, one per concurrent call
  int32_t rows = 0, k = 0, n = 0;
  int32_t block = 32;           ///< a multiple of 16
  int32_t bits = 4;             ///< 4 or 8
  int32_t has_zero_points = 0;  ///< 0: all are 2^(bits - 1) and none are packed
  int32_t begin = 0, end = 0;   ///< groups of 8 columns to compute, of (n + 7) / 8
  int32_t portable = 0;         ///< for the float rows, as PlanOptions::portable
};

}  // namespace requant

#define ROW(linkage, run, ...) RQ_DECLARE_##linkage(run, MatMulNBitsParams)
#include "kernels/matmul_nbits/matmul_nbits.inc"
#undef ROW
