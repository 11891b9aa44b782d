#pragma once
// Layer normalization over rows of float32.
#include <stddef.h>
#include <stdint.h>

#include "kernels/import.h"
#include "kernels/rows.h"

namespace requant {

/// For each of `rows` rows of `cols` contiguous floats:
///   out = (x - mean) / sqrt(variance + epsilon) * scale + bias
/// The variance is the population variance, computed from the differences to the mean (two passes).
/// `scale` and `bias` have `cols` elements; `bias` may be null. in == out is allowed. Where
/// `center` is 0, the kernel takes the mean as 0 and so divides by the root of the mean square
/// (RMSNormalization).
struct LayerNormF32Params {
  const float* in = nullptr;
  float* out = nullptr;
  const float* scale = nullptr;
  const float* bias = nullptr;
  size_t rows = 0;
  size_t cols = 0;
  float epsilon = 0;
  int32_t center = 1;
};

}  // namespace requant

#define ROW(linkage, run, ...) RQ_DECLARE_##linkage(run, LayerNormF32Params)
#include "kernels/layer_norm/layer_norm_f32.inc"
#undef ROW
