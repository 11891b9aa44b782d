// Elementwise kernels: float32 and 8-bit arithmetic of two operands, float32 functions of one.
// A run is `rows` x `cols` elements; strides and steps choose the broadcasting form.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/import.h"
#include "kernels/rows.h"
#include "numeric/qadd.h"
#include "numeric/requantize.h"

namespace requant {

/// How operand X of a binary run is walked: element (r, c) is x[r * row_stride + c * step].
///   equal shapes               rows 1, cols n: step 1
///   one scalar                 step 0, row stride 0
///   per channel, channels last step 1, row stride 0 (rows = pixels, cols = channels)
///   per channel, channels first step 0, row stride 1 (rows = channels, cols = pixels)
/// The output may be one of the operands if that one is walked exactly like the output.
struct BinaryF32Params {
  const float* a;
  const float* b;
  void* out;  // floats; for a comparison, bytes of 0 or 1
  size_t rows;
  size_t cols;
  size_t a_row_stride;  // the three strides are in elements
  size_t b_row_stride;
  size_t out_row_stride;
  int32_t a_step;  // 0 or 1; the output's step is 1
  int32_t b_step;
  float lo;  // fused Relu/Clip: [lo, hi], infinities for none; NaN passes through
  float hi;
  int32_t greater;  // for a comparison, which has no clamp: -1 where a > b counts as true, else 0
  int32_t equal;    // for a comparison: -1 where a == b counts as true, else 0
};

/// out[i] = f(in[i]) for n contiguous elements; in == out is allowed.
struct UnaryF32Params {
  const float* in;
  float* out;
  size_t n;
  float alpha;  // clamp: the lower bound; leaky relu: the slope; hard sigmoid/swish, quick gelu:
                // the factor
  float beta;   // clamp: the upper bound; hard sigmoid/swish: the offset
};

/// 8-bit addition and subtraction. Operands are walked as in BinaryF32Params, with strides in
/// elements (bytes). Each tensor has its own signedness: 1 for int8, 0 for uint8.
struct QAddParams {
  const void* a;
  const void* b;
  void* out;
  size_t rows;
  size_t cols;
  size_t a_row_stride;
  size_t b_row_stride;
  size_t out_row_stride;
  int32_t a_step;
  int32_t b_step;
  int32_t a_signed;
  int32_t b_signed;
  int32_t out_signed;
  int32_t a_zero;
  int32_t b_zero;
  int32_t out_zero;
  int32_t lo;  // saturation and fused clamp, inside the output's range
  int32_t hi;
  int32_t a_multiplier;  // qadd_fixed: MakeQAddMultipliers of numeric/qadd.h
  int32_t b_multiplier;
  int32_t shift;
  QAddNarrow narrow;  // qadd_fixed: the same function in 16 bits, where that is exact
  float a_scale;      // qadd_float; negative to subtract
  float b_scale;
  float out_scale;
};

/// 8-bit addition of equally shaped tensors, at least one of which holds two codes to a byte
/// (kernels/bitserial/nibbles.h).
struct QAddNibblesParams {
  QAddParams add;  ///< everything but its operands and sizes
  const void* a = nullptr;
  const void* b = nullptr;
  void* out = nullptr;
  size_t blocks = 0;          ///< elements / kNibbleBlock
  void* workspace = nullptr;  ///< kNibbleAddWorkspace bytes, 16-byte aligned
  int32_t a_packed = 0, b_packed = 0, out_packed = 0;
  int32_t a_base = 0, b_base = 0;  ///< the least code of a and of b; the output's is add.lo
  int32_t is_float = 0;            ///< 1 computes as qadd_float, 0 as qadd_fixed
};

/// 8-bit multiplication: requantize((a - a_zero) * (b - b_zero)) by s_a * s_b / s_out.
struct QMulParams {
  const void* a;
  const void* b;
  void* out;
  size_t rows;
  size_t cols;
  size_t a_row_stride;
  size_t b_row_stride;
  size_t out_row_stride;
  int32_t a_step;
  int32_t b_step;
  int32_t a_signed;
  int32_t b_signed;
  int32_t out_signed;
  int32_t a_zero;
  int32_t b_zero;
  int32_t out_zero;
  int32_t lo;
  int32_t hi;
  FixedMultiplier multiplier;  // qmul_fixed
  float scale;                 // qmul_float: float(s_a * s_b / s_out)
};

}  // namespace requant

#define ROW(linkage, run, ...) RQ_DECLARE_##linkage(run, BinaryF32Params)
#include "kernels/elementwise/binary_f32.inc"
#undef ROW
#define ROW(linkage, run, ...) RQ_DECLARE_##linkage(run, UnaryF32Params)
#include "kernels/elementwise/unary_f32.inc"
#undef ROW
#define ROW(linkage, run, ...) RQ_DECLARE_##linkage(run, QAddParams)
#include "kernels/elementwise/qadd.inc"
#undef ROW
#define ROW(linkage, run, ...) RQ_DECLARE_##linkage(run, QMulParams)
#include "kernels/elementwise/qmul.inc"
#undef ROW
#define ROW(linkage, run, ...) RQ_DECLARE_##linkage(run, QAddNibblesParams)
#include "kernels/elementwise/qadd_nibbles.inc"
#undef ROW
