// Two operators of ai.requant, which the pass FuseRowCodes makes: products of rows of floats that
// become codes of 8 bits while a model runs, each row with its own scale and zero point.
//
//   codes, s, z = DynamicQuantizeRows(x [.., K])
//     lo = min(x.., 0), hi = max(x.., 0) of a row
//     s = max((hi - lo) * (1 / 255), 1e-30)                                      [.., 1]
//     z = clamp(half_even(-(lo / s)), 0, 255), a byte                            [.., 1]
//     codes = clamp(half_even(x / s) + z, 0, 255)                                [.., K]
//   A row with a NaN or an infinity has no finite s, so that its products are NaN.
//
//   y [.., N] = MatMulIntegerRows(codes [.., K], w [K, N], s [.., 1], t [N] or [], b [N] or [] or
//                                 none, z [.., 1] or none, u [N])
//     y = float(sum of codes * w - z * u) * t * s + b,   u: the sums of the columns of w
//   The sums are integers; every other operation is rounded to float32.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "tensor/tensor.h"

namespace requant {

inline constexpr float kRowShare = 1.0F / 255;
/// A smaller scale would make quotients that are no numbers; so small activations become 0.
inline constexpr float kLeastRowScale = 1e-30F;

struct RowGrid {
  float scale;
  int32_t zero;
};

/// The scale and zero point of a row with values from lo <= 0 to hi >= 0. NaNs give a NaN.
inline RowGrid RowGridOf(float lo, float hi) {
  const float step = (hi - lo) * kRowShare;
  const float scale = step < kLeastRowScale ? kLeastRowScale : step;
  const float zero = -(lo / scale);
  return {scale, zero > 0 ? static_cast<int32_t>(std::nearbyint(std::min(zero, 255.0F))) : 0};
}

/// The sums of the columns of int8 or uint8 weights [K, N] as int32 [N], which wrap.
Tensor ColumnSums(const Tensor& weights);

}  // namespace requant
