#pragma once
// exp and log for the softmax kernels, scalar; freestanding. The vector row repeats Exp operation
// by operation, so both rows give the same bits on every machine.
#include <stdint.h>

namespace requant::softmax {

// x = n * ln 2 + r with n whole and |r| <= ln(2) / 2, so e^x = 2^n * e^r (Cody & Waite, "Software
// Manual for the Elementary Functions", 1980, ch. 6). ln 2 is split into kLn2High, whose product
// with n is exact (9 significant bits, |n| <= 126), and the rest. e^r is 1 + r + r^2 * q(r) with
// q the Taylor polynomial up to r^7 / 7!, whose remainder |r|^8 / 8! < 6e-9 is a tenth of an ulp.
// Error for x in [-87.3, 0]: at most 1.5 ulp (the test measures it). Below kExpMin the result is 0
// where libm returns a denormal, which changes a softmax by less than 2^-126.
inline constexpr float kExpMin = -87.3365478515625f;  // ln(2^-126) = -87.336544...
inline constexpr float kLog2e = 1.44269504088896341f;
inline constexpr float kLn2High = 0.693359375f;
inline constexpr float kLn2Low = -2.12194440054690583e-4f;
inline constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to whole numbers
inline constexpr float kC2 = 0.5f, kC3 = 1.6666667163e-1f, kC4 = 4.1666667908e-2f,
                       kC5 = 8.3333337680e-3f, kC6 = 1.3888889225e-3f, kC7 = 1.9841270114e-4f;

static inline uint32_t Bits(float x) { return __builtin_bit_cast(uint32_t, x); }
static inline float FromBits(uint32_t bits) { return __builtin_bit_cast(float, bits); }

/// e^x for x <= 0 (what a softmax asks for); NaN stays NaN.
static inline float Exp(float x) {
  const float clamped = x < kExpMin ? kExpMin : x;
  const float scaled = clamped * kLog2e;
  const float shifted = scaled + kMagic;
  const float n = shifted - kMagic;
  const float high = clamped - n * kLn2High;
  const float r = high - n * kLn2Low;
  float q = kC7 * r;
  q = q + kC6;
  q = q * r;
  q = q + kC5;
  q = q * r;
  q = q + kC4;
  q = q * r;
  q = q + kC3;
  q = q * r;
  q = q + kC2;
  const float square = r * r;
  const float tail = r + square * q;
  const float e = 1.0f + tail;
  // n sits in the low bits of `shifted`; as an exponent it multiplies by 2^n.
  const float power = FromBits((Bits(shifted) << 23) + 0x3f800000u);
  return x < kExpMin ? 0.0f : e * power;
}

/// log(x) for a finite x >= 1, in double: x = m * 2^k with m in [sqrt(1/2), sqrt(2)), and
/// log m = 2 * atanh(t), t = (m - 1) / (m + 1), |t| < 0.1716; the series' remainder is below 1e-12.
static inline double Log(float x) {
  const uint32_t bits = Bits(x);
  int32_t exponent = static_cast<int32_t>(bits >> 23) - 127;
  double m = FromBits((bits & 0x7fffffu) | 0x3f800000u);
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

/// The last step of log_softmax; NaN sums stay NaN.
static inline float LogOfSum(float sum) {
  return sum >= 1.0f && sum <= 3.4028235e38f ? static_cast<float>(Log(sum)) : sum - sum;
}

}  // namespace requant::softmax
