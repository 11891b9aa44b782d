#pragma once
// Resizing channels-last images.
#include <stddef.h>
#include <stdint.h>

#include "kernels/import.h"
#include "kernels/rows.h"

namespace requant {

/// The source of an output line or column: two input ones and the weight of each.
struct LinearTap {
  int32_t first, second;
  float first_weight, second_weight;
};

/// out[y][x][c] = (a * wx0 + b * wx1) * wy0 + (c * wx0 + d * wx1) * wy1 over the four input pixels
/// that ys[y] and xs[x] name. row_begin and row_end count lines of output pixels over all images.
struct ResizeLinearF32Params {
  int32_t row_begin = 0, row_end = 0;
  const float* in = nullptr;
  float* out = nullptr;
  const LinearTap* ys = nullptr;  // [out_h]
  const LinearTap* xs = nullptr;  // [out_w]
  size_t in_h = 0, in_w = 0;
  size_t out_h = 0, out_w = 0;
  size_t channels = 0;
};

/// out[y][x] = in[ys[y]][xs[x]]; a pixel has any number of bytes.
struct ResizeNearestParams {
  const void* in = nullptr;
  void* out = nullptr;
  const int32_t* ys = nullptr;  // [out_h]
  const int32_t* xs = nullptr;  // [out_w]
  size_t images = 0;
  size_t in_h = 0, in_w = 0;
  size_t out_h = 0, out_w = 0;
  size_t pixel_bytes = 0;
};

}  // namespace requant

#define ROW(linkage, run, ...) RQ_DECLARE_##linkage(run, ResizeLinearF32Params)
#include "kernels/resize/resize_linear_f32.inc"
#undef ROW
