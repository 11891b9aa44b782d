#pragma once

#include <cstdint>

namespace requant {

/// Applies the rotary position embedding to one token (Su et al., "RoFormer", 2021). Pair i of the
/// first 2 * half elements turns by the angle whose cosine and sine are given,
///   (a, b) -> (a cos - b sin, a sin + b cos),
/// where the pair is (x[i], x[i + half]), or with `interleaved` (x[2 i], x[2 i + 1]).
inline void RotateRow(float* x, const float* cos, const float* sin, int64_t half,
                      bool interleaved) {
  const int64_t step = interleaved ? 2 : 1;
  const int64_t apart = interleaved ? 1 : half;
  for (int64_t i = 0; i < half; ++i) {
    float& a = x[i * step];
    float& b = x[i * step + apart];
    const float rotated = a * cos[i] - b * sin[i];
    b = a * sin[i] + b * cos[i];
    a = rotated;
  }
}

}  // namespace requant
