#pragma once
// The second half of a transposed convolution: gathering the products of every input pixel.
#include "kernels/geometry.h"
#include "kernels/import.h"

namespace requant {

/// With P = 1x1 convolution of the input to groups x kernel_h x kernel_w x (out_c / groups)
/// channels,
///   out[oy][ox][c] = clamp(bias[c] + sum P[iy][ix][g][ky][kx][c'])
/// over the taps (ky, kx) and input pixels with iy * stride_h + ky * dilation_h - pad_top == oy,
/// and so for x: what `geometry` says of a convolution, its input being the products (in_h x in_w
/// pixels). The taps are added in their order. Rows are output pixels.
struct Col2ImF32Params {
  ConvGeometry geometry;
  int32_t row_begin = 0, row_end = 0;
  const float* products = nullptr;
  const float* bias = nullptr;  // out_c floats or null
  float* output = nullptr;
  float lo = 0, hi = 0;
};

}  // namespace requant

RQ_KERNEL(rq_col2im_f32) void rq_col2im_f32(const requant::Col2ImF32Params* params);
