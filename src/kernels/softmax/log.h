#pragma once
// A scalar logarithm for the softmax kernels. Freestanding.
#include <stdint.h>

namespace requant::softmax {

/// log(x) for a finite x >= 1, in double: x = m * 2^k with m in [sqrt(1/2), sqrt(2)), and log m = 2
/// * atanh(t), t = (m - 1) / (m + 1), |t| < 0.1716. The remainder of the series is below 1e-12.
static inline double Log(float x) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, x);
  int32_t exponent = static_cast<int32_t>(bits >> 23) - 127;
  double m = __builtin_bit_cast(float, (bits & 0x7fffffu) | 0x3f800000u);
  if (m > 1.4142135623730951) {
    m = m * 0.5;
    ++exponent;
  }
  const double t = (m - 1.0) / (m + 1.0);
  const double s = t * t;
  double series = 1.0 / 13.0;
  series = series * s + 1.0 / 11.0;
  series = series * s + 1.0 / 9.0;
  series = series * s + 1.0 / 7.0;
  series = series * s + 1.0 / 5.0;
  series = series * s + 1.0 / 3.0;
  series = series * s + 1.0;
  return 2.0 * t * series + exponent * 0.6931471805599453;
}

/// The logarithm of a row's sum for log_softmax; NaN sums stay NaN.
static inline float LogOfSum(float sum) {
  return sum >= 1.0f && sum <= 3.4028235e38f ? static_cast<float>(Log(sum)) : sum - sum;
}

}  // namespace requant::softmax
