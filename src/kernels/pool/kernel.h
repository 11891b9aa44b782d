#pragma once
// Pooling over NHWC images, channel by channel (geometry.in_c == out_c; groups are unused). A
// window position outside the image is padding: maxima ignore it, averages count it on request.
#include <stddef.h>
#include <stdint.h>

#include "kernels/geometry.h"
#include "kernels/import.h"
#include "kernels/rows.h"
#include "numeric/requantize.h"

namespace requant {

/// float32 maximum. A NaN in the window gives NaN; a window of only padding gives -infinity.
struct MaxPoolF32Params {
  ConvGeometry geometry;
  int32_t row_begin = 0, row_end = 0;  ///< output pixels to compute, within [0, ConvRows)
  const float* input = nullptr;
  float* output = nullptr;
};

/// 8-bit maximum; input and output share scale and zero point. A window of only padding gives the
/// type's least value.
struct MaxPoolQ8Params {
  ConvGeometry geometry;
  int32_t row_begin = 0, row_end = 0;
  const void* input = nullptr;
  void* output = nullptr;
  int32_t is_signed = 0;  ///< 1: int8, 0: uint8
  int32_t lo = -128;      ///< fused clamp; the type's range for none
  int32_t hi = 255;
  /// Not 0: the kernel writes so many bit planes (kernels/bitserial/planes.h) of the codes less lo,
  /// instead of bytes. Offsets of pixels still count channels.
  int32_t output_planes = 0;
  int32_t output_spread = 0;  ///< 1: the planes are spread; only lo and hi occur if it is one plane
};

/// How many positions an average divides by (AveragePool, onnx docs/Operators.md). Without
/// include_pad it counts positions inside the image; with it, positions inside the padded image of
/// pad_top + in_h + pad_bottom rows and pad_left + in_w + pad_right columns (ceil_mode can reach
/// beyond that). An empty window gives 0.
struct PoolCount {
  int32_t include_pad = 0;
  int32_t pad_bottom = 0, pad_right = 0;
};

/// float32 average. The kernel sums each line of the window, then the lines' sums. This fixed order
/// makes results independent of the variant and keeps the error of a global average small. A global
/// average pool has a kernel of in_h x in_w.
struct AvgPoolF32Params {
  ConvGeometry geometry;
  int32_t row_begin = 0, row_end = 0;
  PoolCount count;
  const float* input = nullptr;
  float* output = nullptr;
  float lo = -__builtin_inff(), hi = __builtin_inff();
};

/// 8-bit average: sum of (q - input_zero_point) in int32, times s_in / (s_out * count). The window
/// has fewer than 2^23 positions.
struct AvgPoolQ8Params {
  ConvGeometry geometry;
  int32_t row_begin = 0, row_end = 0;
  PoolCount count;
  const void* input = nullptr;
  void* output = nullptr;
  int32_t in_signed = 0;
  int32_t out_signed = 0;
  int32_t input_zero_point = 0;
  int32_t output_zero_point = 0;
  int32_t lo = 0;  ///< output clamp, a merged activation included
  int32_t hi = 255;
  /// avgpool_q8_fixed: multipliers[count - first_count] stands for s_in / (s_out * count), for
  /// every count that occurs (AvgPoolMultipliers of kernels/pool/table.h makes them).
  const FixedMultiplier* multipliers = nullptr;
  int32_t first_count = 1;
  /// avgpool_q8_float: the factor is input_scale / (output_scale * count), all in float32 (ONNX
  /// Runtime's QLinearGlobalAveragePool).
  float input_scale = 1, output_scale = 1;
};

}  // namespace requant

#define ROW(linkage, run, ...) RQ_DECLARE_##linkage(run, MaxPoolF32Params)
#include "kernels/pool/maxpool_f32.inc"
#undef ROW
#define ROW(linkage, run, ...) RQ_DECLARE_##linkage(run, MaxPoolQ8Params)
#include "kernels/pool/maxpool_q8.inc"
#undef ROW
#define ROW(linkage, run, ...) RQ_DECLARE_##linkage(run, AvgPoolF32Params)
#include "kernels/pool/avgpool_f32.inc"
#undef ROW
#define ROW(linkage, run, ...) RQ_DECLARE_##linkage(run, AvgPoolQ8Params)
#include "kernels/pool/avgpool_q8.inc"
#undef ROW
