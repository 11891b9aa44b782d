// Float32 <-> 8 bits (QuantizeLinear, DequantizeLinear of onnx docs/Operators.md):
//   q = sat(half_even(x / s) + z), a true division; NaN gives z, infinities saturate;
//   x = (q - z) * s.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/import.h"
#include "kernels/rows.h"

namespace requant {

/// Quantizes rows x cols floats to bytes. Parameters are per tensor (scale, zero) or, where
/// `scales` is not null, per element of a row: scales[c], zeros[c] (the axis is the last one; null
/// zeros are 0).
struct QuantizeParams {
  const float* in;
  void* out;
  size_t rows;
  size_t cols;
  size_t in_row_stride;   // floats
  size_t out_row_stride;  // bytes
  const float* scales;
  const int32_t* zeros;
  float scale;
  int32_t zero;
  int32_t lo;  // [0, 255] or [-128, 127], or a fused clamp within that range
  int32_t hi;
};

/// Dequantizes rows x cols bytes to floats, with parameters as in QuantizeParams.
struct DequantizeParams {
  const void* in;
  float* out;
  size_t rows;
  size_t cols;
  size_t in_row_stride;   // bytes
  size_t out_row_stride;  // floats
  const float* scales;
  const int32_t* zeros;
  float scale;
  int32_t zero;
  int32_t in_signed;  // 1 for int8
};

/// Quantizes a network's input in one pass: float planes [channels][pixels] become byte pixels
/// [pixels][out_pixel_stride]. There are 1..4 channels; bytes of a pixel from `channels` on are not
/// written. All channels share one scale and zero point.
struct QuantizePlanesParams {
  const float* in;
  void* out;
  size_t channels;
  size_t pixels;
  size_t in_plane_stride;   // floats
  size_t out_pixel_stride;  // bytes, >= channels
  float scale;
  int32_t zero;
  int32_t lo;
  int32_t hi;
};

}  // namespace requant

#define ROW(linkage, run, ...) RQ_DECLARE_##linkage(run, QuantizeParams)
#include "kernels/quantize/quantize.inc"
#undef ROW
#define ROW(linkage, run, ...) RQ_DECLARE_##linkage(run, DequantizeParams)
#include "kernels/quantize/dequantize.inc"
#undef ROW
#define ROW(linkage, run, ...) RQ_DECLARE_##linkage(run, QuantizePlanesParams)
#include "kernels/quantize/quantize_planes.inc"
#undef ROW
