#pragma once
// Convolution (and matrix product) on NHWC as one implicit matrix product: the whole operator with
// bias, residual, requantization and activation. Freestanding, parameters and entry points only;
// kernels/conv/table.h has the rows that join them to their packing functions.
#include <stddef.h>
#include <stdint.h>

#include "kernels/elementwise/kernel.h"
#include "kernels/geometry.h"
#include "kernels/import.h"
#include "kernels/rows.h"
#include "numeric/requantize.h"

namespace requant {

/// float32 convolution: output = clamp(bias + sum(input * weights) + residual, lo, hi). A NaN
/// propagates. The order of the sum does not depend on the row range.
struct ConvF32Params {
  ConvGeometry geometry;
  int32_t row_begin = 0, row_end = 0;  ///< output pixels to compute, within [0, ConvRows)
  const float* input = nullptr;
  const void* weights = nullptr;    ///< packed by the same row's pack_weights (bias included)
  int32_t halves = 0;               ///< 1: as float/halves.h says
  const float* residual = nullptr;  ///< optional, one row of out_c floats per output pixel
  int32_t residual_stride = 0;      ///< elements between the residual's pixels
  float* output = nullptr;
  void* workspace = nullptr;  ///< workspace_size bytes, 16-byte aligned, one per concurrent call
  float lo = -__builtin_inff(), hi = __builtin_inff();
  int32_t portable = 0;  ///< as PlanOptions::portable
};

/// What conv_q8 stores. The values are part of the kernels' ABI.
enum class ConvQ8Output : int32_t {
  kUint8 = 0,
  kInt8 = 1,
  // kInt32 and kFloat32 do not requantize: the kernel does not read `requantize`.
  kInt32 = 2,    ///< the accumulator itself (ConvInteger, MatMulInteger)
  kFloat32 = 3,  ///< see FloatSums
};

/// clamp((acc - row_zero * column_sum) * scale * row_scale + bias + residual, lo, hi). The sums are
/// integers; every other operation is rounded to float32, as the Cast, Muls, Adds and Clip behind a
/// ConvInteger are. A NaN propagates.
struct FloatSums {
  const float* scale = nullptr;         ///< [out_c]; three more floats are readable
  const float* row_scale = nullptr;     ///< optional, one for each output pixel
  const uint8_t* row_zero = nullptr;    ///< optional, one for each output pixel
  const int32_t* column_sum = nullptr;  ///< [out_c] if row_zero is given; three more are readable
  const float* bias = nullptr;          ///< optional, [out_c]; three more floats are readable
  const float* residual = nullptr;      ///< optional, one row of out_c floats per output pixel
  int32_t residual_stride = 0;          ///< elements between the residual's pixels
  float lo = -__builtin_inff(), hi = __builtin_inff();
};

/// 8-bit convolution with int32 accumulators (they wrap; the planner keeps them in range): acc =
/// bias + sum((input - input_zero_point) * (weight - its zero point)). Padding counts as the zero
/// point. RequantizeParams describes the output.
struct ConvQ8Params {
  ConvGeometry geometry;
  int32_t row_begin = 0, row_end = 0;
  const void* input = nullptr;
  int32_t input_signed = 0;      ///< 0: uint8, 1: int8
  int32_t input_zero_point = 0;  ///< in the range of the input's type
  const void* weights = nullptr;
  void* output = nullptr;
  ConvQ8Output output_type = ConvQ8Output::kUint8;
  RequantizeParams requantize;
  void* workspace = nullptr;
  /// 1: two codes to a byte (kernels/bitserial/nibbles.h), less input_base or requantize.lo; only
  /// the kernels of few bits take it. Offsets of pixels and channels still count elements.
  int32_t input_packed = 0, output_packed = 0;
  int32_t input_base = 0;
  /// Not 0: so many bit planes (kernels/bitserial/planes.h) of codes less the least one, which for
  /// the input is that of the packed weights, for the output the least that is written. Only
  /// kernels of bits read them.
  int32_t input_planes = 0, output_planes = 0;
  /// 1: the input's planes are of every other code, as -1 and 1 are. Padding may be one between.
  int32_t input_spread = 0;
  /// The tensor that `addition` adds to the requantized output, or null: one row for each output
  /// pixel, residual_stride bytes apart. `output` then holds the sums; the two must not overlap.
  const void* residual = nullptr;
  int32_t residual_stride = 0;
  int32_t residual_first = 0;                      ///< 1: the residual is operand a of the addition
  int32_t residual_packed = 0, residual_base = 0;  ///< as input_packed and input_base
  int32_t residual_planes = 0;  ///< 1: one bit plane of two codes; only the lookup kernel reads it
  int32_t addition_is_float = 0;
  /// everything but operands, output and sizes, which the kernel fills in
  QAddParams addition = {};
  FloatSums sums;
};

}  // namespace requant

/// Adds the residual to `channels` channels of `count` output rows.
RQ_KERNEL(rq_conv_add_residual)
void rq_conv_add_residual(const requant::ConvQ8Params* params, int32_t row, int32_t count,
                          int32_t channel, int32_t channels);

/// Writes accumulators without requantization; their rows are kChannelBlock apart.
RQ_KERNEL(rq_conv_write_sums)
void rq_conv_write_sums(const requant::ConvQ8Params* params, const int32_t* acc, int32_t row,
                        int32_t count, int32_t channel, int32_t channels);

// Rows that are MissingDot8 need a rq_dot8() that is not 0. kernels/bitserial defines the lookups
// and the kernels that count bits.
#define ROW(linkage, run, ...) RQ_DECLARE_##linkage(run, ConvF32Params)
#include "kernels/conv/conv_f32.inc"
#undef ROW
#define ROW(linkage, run, ...) RQ_DECLARE_##linkage(run, ConvQ8Params)
#include "kernels/conv/conv_q8.inc"
#undef ROW
