#pragma once
// The normative softmax of a row of codes, in integers: scalar, freestanding.
//
//   y_i = exp(s_x (q_i - m)) / sum_j exp(s_x (q_j - m)),   m the largest q of the row
//
// 1. The distance d = m - q has at most 16 bits, d = 256 h + l. Two tables of 256 entries have
//    exp(-256 s_x h) and exp(-s_x l) in units of 2^-31; their product, rounded to units of 2^-30,
//    is the term.
// 2. The terms add up exactly in 64 bits: S.
// 3. One division per row gives R = floor(2^32 C / S'), where C has 31 bits of 1 / s_y and S' the
//    upper 32 bits of S.
// 4. The code is round(term * R / 2^shift) + z_y, ties upwards, clamped.
//
// A code differs from y_i / s_y + z_y (clamped) by at most
//
//   1/2 + (n + 8) 2^-30 / s_y                                             (n elements in the row)
//
// steps: a term is within 2^-30 of its exponential (2^-32 from each table, 2^-31 from rounding the
// product), so S is within n 2^-30 of the sum, which is at least 1; C, S' and R are rounded by less
// than 2^-30 of themselves each.
#include <stdint.h>

namespace requant {

/// exp(-x) of 0 <= x by sums and products of float64, which IEEE 754 defines, so that all builds
/// make the same tables. The error is below 2^-48 of the result.
inline double ExpOfNegated(double x) {
  constexpr double kLog2High = 6.93147180369123816490e-01;  // the sum of both is log 2
  constexpr double kLog2Low = 1.90821492927058770002e-10;
  if (x > 700) return 0;
  const auto halvings = static_cast<int32_t>(x * 1.44269504088896340736);
  const double k = halvings;
  const double rest = (x - k * kLog2High) - k * kLog2Low;  // in [0, log 2) up to rounding
  double series = 1;
  for (int32_t i = 20; i > 0; --i) series = 1 - series * rest / i;  // Taylor, Horner's scheme
  return __builtin_ldexp(series, -halvings);
}

/// A number from 0 to 1 in units of 2^-31, rounded half up.
inline uint32_t Fixed31(double value) {
  const double units = value * 2147483648.0;
  const auto whole = static_cast<uint32_t>(units);
  return whole + (units - whole >= 0.5 ? 1 : 0);
}

/// A number as a mantissa of 31 bits, in [2^30, 2^31), and a power of two.
struct IntegerFactor {
  uint32_t mantissa = 0;
  int32_t exponent = 0;
};

/// The factor next to a positive finite number.
inline IntegerFactor ToIntegerFactor(double value) {
  int exponent = 0;
  const double fraction = __builtin_frexp(value, &exponent);
  auto mantissa = Fixed31(fraction);
  if (mantissa == uint32_t{1} << 31) {
    mantissa >>= 1;
    ++exponent;
  }
  return {mantissa, exponent - 31};
}

struct IntegerSoftmax {
  uint32_t low[256] = {}, high[256] = {};  ///< exp(-s_x l) and exp(-256 s_x h) in units of 2^-31
  IntegerFactor per_step;                  ///< 1 / s_y
  int32_t zero_point = 0;
  int32_t hi = 255;  ///< the largest code
};

inline IntegerSoftmax MakeIntegerSoftmax(float x_scale, float y_scale, int32_t y_zero_point,
                                         int32_t hi) {
  IntegerSoftmax made;
  for (int32_t i = 0; i < 256; ++i) {
    const double x = static_cast<double>(x_scale) * i;
    made.low[i] = Fixed31(ExpOfNegated(x));
    made.high[i] = Fixed31(ExpOfNegated(x * 256));
  }
  made.per_step = ToIntegerFactor(1 / static_cast<double>(y_scale));
  made.zero_point = y_zero_point;
  made.hi = hi;
  return made;
}

/// The term of a distance below 2^16, at most 2^30.
inline uint32_t SoftmaxTerm(const IntegerSoftmax& softmax, uint32_t distance) {
  const uint64_t product = uint64_t{softmax.high[distance >> 8]} * softmax.low[distance & 255];
  return static_cast<uint32_t>((product + (uint64_t{1} << 31)) >> 32);
}

/// The factor of the terms of one row: code = ((term * factor + half) >> shift) + z_y.
struct SoftmaxDivisor {
  uint64_t factor = 0;  ///< below 2^32
  uint64_t half = 0;
  int32_t shift = 1;
};

/// The divisor of a row whose terms add up to `sum`, which is at least 2^30, the largest term.
inline SoftmaxDivisor DivideSoftmax(const IntegerSoftmax& softmax, uint64_t sum) {
  const int32_t above = 32 - __builtin_clzll(sum);  // bits above 32; -1 for sums below 2^31
  const uint64_t upper = above >= 0 ? sum >> above : sum << -above;
  SoftmaxDivisor made;
  if (upper == 0) return made;  // never: the largest term is in the sum
  made.factor = (uint64_t{softmax.per_step.mantissa} << 32) / upper;
  // Results beyond both bounds of the shift are saturated, and 0.
  const int32_t shift = 32 + above - softmax.per_step.exponent;
  made.shift = shift < 1 ? 1 : shift > 63 ? 63 : shift;
  made.half = uint64_t{1} << (made.shift - 1);
  return made;
}

inline int32_t SoftmaxCode(const IntegerSoftmax& softmax, const SoftmaxDivisor& by, uint32_t term) {
  const uint64_t steps = (term * by.factor + by.half) >> by.shift;
  const auto most = static_cast<uint64_t>(softmax.hi - softmax.zero_point);
  return static_cast<int32_t>(steps < most ? steps : most) + softmax.zero_point;
}

}  // namespace requant
