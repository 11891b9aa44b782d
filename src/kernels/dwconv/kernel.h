#pragma once
// Depthwise convolution on NHWC: one input channel per output channel, multiplier 1 (other
// multipliers are grouped convolutions). Freestanding; kernels/dwconv/table.h has the rows.
#include <stddef.h>
#include <stdint.h>

#include "kernels/geometry.h"
#include "kernels/import.h"
#include "kernels/rows.h"
#include "numeric/requantize.h"

namespace requant {

/// float32: output = clamp(bias + sum(input * weights), lo, hi). A NaN propagates. geometry has
/// in_c == out_c == groups.
struct DwConvF32Params {
  ConvGeometry geometry;
  int32_t row_begin = 0, row_end = 0;  ///< output pixels to compute, within [0, ConvRows)
  const float* input = nullptr;
  const void* weights = nullptr;  ///< packed by the same row's pack_weights (bias included)
  float* output = nullptr;
  void* workspace = nullptr;  ///< workspace_size bytes, 16-byte aligned, one per concurrent call
  float lo = -__builtin_inff(), hi = __builtin_inff();
  int32_t portable = 0;  ///< as PlanOptions::portable
};

/// 8 bits, with the arithmetic of ConvQ8Params.
struct DwConvQ8Params {
  ConvGeometry geometry;
  int32_t row_begin = 0, row_end = 0;
  const void* input = nullptr;
  int32_t input_signed = 0;  ///< 0: uint8, 1: int8
  int32_t input_zero_point = 0;
  const void* weights = nullptr;
  void* output = nullptr;
  int32_t output_signed = 0;  ///< 0: uint8, 1: int8
  RequantizeParams requantize;
  void* workspace = nullptr;
  /// As in ConvQ8Params; only the kernel of few bits takes packed codes.
  int32_t input_packed = 0, output_packed = 0;
  int32_t input_base = 0;
  int32_t output_planes = 0;  ///< as in ConvQ8Params; 1: a plane of two codes
};

}  // namespace requant

#define ROW(linkage, run, ...) RQ_DECLARE_##linkage(run, DwConvF32Params)
#include "kernels/dwconv/dwconv_f32.inc"
#undef ROW
#define ROW(linkage, run, ...) RQ_DECLARE_##linkage(run, DwConvQ8Params)
#include "kernels/dwconv/dwconv_q8.inc"
#undef ROW
