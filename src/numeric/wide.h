#pragma once
// The normative arithmetic of operators with 16-bit codes ("wide" operators): scalar, freestanding.
//
//   q = clamp(half_even(v) + zero_point, lo, hi)
//
// v is a float64: an exact integer times one multiplier, or the sum of two such products. An int32
// multiplier of 31 bits would leave ties of 16-bit results to the rounding of the multiplier; a
// float64 has 53 bits, and IEEE 754 defines the result of every operation, so all builds and
// machines compute the same codes. No requantize mode (numeric/requantize.h) changes it.
#include <stdint.h>

namespace requant {

/// An output of 8 or 16 bits.
struct WideOutput {
  int32_t zero_point = 0;
  int32_t lo = -32768, hi = 32767;  ///< within the codes of the output's type
};

/// clamp(half_even(value) + zero_point, lo, hi). The value is no NaN. The default rounding mode
/// must be in force (wasm has no other).
inline int32_t RoundWide(double value, const WideOutput& to) {
  const double rounded = __builtin_nearbyint(value);
  // Zero points have at most 16 bits, so the bounds are exact.
  const double lo = static_cast<double>(to.lo - to.zero_point);
  const double hi = static_cast<double>(to.hi - to.zero_point);
  if (rounded <= lo) return to.lo;
  if (rounded >= hi) return to.hi;
  return static_cast<int32_t>(rounded) + to.zero_point;
}

/// The code of a sum of products, |sum| < 2^53, with multiplier s_x * s_w / s_y.
inline int32_t RequantizeWide(int64_t sum, double multiplier, const WideOutput& to) {
  return RoundWide(static_cast<double>(sum) * multiplier, to);
}

/// The code of a sum of two operands less their zero points. Both products and the sum are rounded
/// to float64, one after the other.
inline int32_t AddWide(int32_t a, double a_multiplier, int32_t b, double b_multiplier,
                       const WideOutput& to) {
  const double left = static_cast<double>(a) * a_multiplier;
  const double right = static_cast<double>(b) * b_multiplier;
  return RoundWide(left + right, to);
}

/// s_a * s_b / s_y: the product of two float32 is exact in float64, the quotient is rounded once.
inline double WideMultiplier(float scale_a, float scale_b, float scale_y) {
  return static_cast<double>(scale_a) * static_cast<double>(scale_b) / static_cast<double>(scale_y);
}

/// s_x / (s_y * count), for the sum of `count` values; the divisor is exact.
inline double WideAverageMultiplier(float scale_x, float scale_y, int64_t count) {
  return static_cast<double>(scale_x) / (static_cast<double>(scale_y) * static_cast<double>(count));
}

}  // namespace requant
