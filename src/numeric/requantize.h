#pragma once
// The normative requantization of this project: scalar, integer, freestanding (the vector kernels
// include it, too). Every vector form matches these functions bit for bit.
//
// A real multiplier m (s_in * s_w / s_out) is stored as m = multiplier * 2^-shift with a 31-bit
// multiplier: the decomposition of TVM's src/relay/qnn/utils.cc (GetFixedPointMultiplierShift) and
// of TensorFlow Lite's QuantizeMultiplier; here `shift` is the TOTAL right shift of the 64-bit
// product (31 minus the binary exponent).
#include <stdint.h>

namespace requant {

/// m = multiplier * 2^-shift. multiplier is 0 or in [2^30, 2^31); shift is in [1, 62].
struct FixedMultiplier {
  int32_t multiplier = 0;
  int32_t shift = 31;
};

/// The arithmetic that turns an int32 accumulator into an output integer. The values are part of
/// the kernels' ABI.
enum class RequantizeMode : int32_t {
  kUpward = 0,  ///< fixed point, one rounding, ties towards +infinity (TVM UPWARD, TFLite single)
  kFloat = 1,   ///< half_even(float(acc) * scale): ONNX Runtime, XNNPACK
  kToNearest = 2,  ///< fixed point, one rounding, ties away from zero (TVM TONEAREST)
  kGemmlowp = 3,   ///< fixed point, two roundings (gemmlowp, TensorFlow Lite's reference kernels)
};

inline int32_t SaturateToInt32(int64_t value) {
  if (value > INT32_MAX) return INT32_MAX;
  if (value < INT32_MIN) return INT32_MIN;
  return static_cast<int32_t>(value);
}

/// (acc * M + 2^(t-1)) >> t, saturated: ties go up. TVM Requantize "UPWARD".
inline int32_t RequantizeUpward(int32_t acc, FixedMultiplier m) {
  const int64_t product = static_cast<int64_t>(acc) * m.multiplier;
  return SaturateToInt32((product + (int64_t{1} << (m.shift - 1))) >> m.shift);
}

/// Like RequantizeUpward, but ties go away from zero. TVM Requantize "TONEAREST".
inline int32_t RequantizeToNearest(int32_t acc, FixedMultiplier m) {
  const int64_t product = static_cast<int64_t>(acc) * m.multiplier;
  const int64_t half = int64_t{1} << (m.shift - 1);
  return SaturateToInt32((product + (product >= 0 ? half : half - 1)) >> m.shift);
}

/// gemmlowp's SaturatingRoundingDoublingHighMul (fixedpoint/fixedpoint.h): round(a * b / 2^31).
inline int32_t SaturatingRoundingDoublingHighMul(int32_t a, int32_t b) {
  if (a == INT32_MIN && b == INT32_MIN) return INT32_MAX;
  const int64_t product = static_cast<int64_t>(a) * b;
  const int64_t nudge = product >= 0 ? (int64_t{1} << 30) : 1 - (int64_t{1} << 30);
  return static_cast<int32_t>((product + nudge) / (int64_t{1} << 31));
}

/// gemmlowp's RoundingDivideByPOT: x / 2^exponent, ties away from zero; exponent in [0, 31].
inline int32_t RoundingDivideByPot(int32_t x, int32_t exponent) {
  const int64_t mask = (int64_t{1} << exponent) - 1;
  const int64_t remainder = x & mask;
  const int64_t threshold = (mask >> 1) + (x < 0 ? 1 : 0);
  return static_cast<int32_t>((static_cast<int64_t>(x) >> exponent) +
                              (remainder > threshold ? 1 : 0));
}

/// TensorFlow Lite's MultiplyByQuantizedMultiplier with double rounding (its left shift saturates
/// here, where the original overflows).
inline int32_t RequantizeGemmlowp(int32_t acc, FixedMultiplier m) {
  const int32_t exponent = 31 - m.shift;
  const int32_t left = exponent > 0 ? exponent : 0;
  const int32_t right = exponent > 0 ? 0 : -exponent;
  const int32_t shifted = SaturateToInt32(static_cast<int64_t>(acc) * (int64_t{1} << left));
  return RoundingDivideByPot(SaturatingRoundingDoublingHighMul(shifted, m.multiplier), right);
}

/// half_even(float(acc) * scale), saturated; a NaN product gives 0. The default floating-point
/// rounding mode must be in force (wasm has no other).
inline int32_t RequantizeFloat(int32_t acc, float scale) {
  const float value = __builtin_nearbyintf(static_cast<float>(acc) * scale);
  if (value >= 2147483648.0f) return INT32_MAX;
  if (value >= -2147483648.0f) return static_cast<int32_t>(value);
  return value < 0.0f ? INT32_MIN : 0;
}

/// The vector form that computes mode kUpward exactly for given multipliers (see
/// PrepareRequantize).
enum class RequantizePath : int32_t {
  kScalar = 0,  ///< per element, as above
  /// 64-bit products and one shift for eight channels; kScalar if their shifts differ too much
  kShift = 1,
  kDouble = 2,  ///< products exact in float64
};

/// A requantization to at most 16 codes in 16 bits, per output channel; arrays are padded like
/// those of RequantizeParams:
///   x = saturated(acc * scale), y = (x * factor + 2^14) >> 15,
///   output = clamp(((saturated(y + bias) + 2^(shift-1)) >> shift) + lo + kNarrowMiddle, lo, hi).
/// scale is 0 for channels without such a form. AddNarrowRequantize finds and proves the form.
struct NarrowRequantize {
  const int32_t* scale = nullptr;  // the values of these three arrays fit int16
  const int32_t* factor = nullptr;
  const int32_t* bias = nullptr;
  int32_t shift = 0;  ///< 0: the form does not exist
  /// For a clamp to two codes: the largest accumulator of the lower code, clamped to int16, which
  /// is right for accumulators above -2^15. Null for more codes.
  const int32_t* last_low = nullptr;
};
inline constexpr int32_t kNarrowMiddle = 8;
/// 16 codes << 12 take all of int16.
inline constexpr int32_t kNarrowFullShift = 12;

/// Requantization of a kernel's accumulators, per output channel. Fill it with PrepareRequantize
/// (numeric/requantize_prepare.h). Every array has kRequantizePadding readable elements past the
/// last channel. The result of a channel is clamp(zero_point + requantized, lo, hi).
struct RequantizeParams {
  RequantizeMode mode = RequantizeMode::kUpward;
  RequantizePath path = RequantizePath::kScalar;
  const int32_t* multiplier = nullptr;  ///< M_c
  const int32_t* shift = nullptr;       ///< t_c
  const float* scale = nullptr;         ///< m_c as float, for kFloat
  /// The largest h with bound_c * 2^h < 2^31: the number of bits by which path kShift may shift an
  /// accumulator up.
  const int32_t* headroom = nullptr;
  /// Whether |float(acc) * scale| < 2^21 for every accumulator within the bounds.
  int32_t small_products = 0;
  /// M_c * 2^-t_c for path kDouble, and 2^-(t_c + 1), or null if no accumulator within the bounds
  /// can make a tie.
  const double* exact_scale = nullptr;
  const double* exact_tie = nullptr;
  /// A form with equal codes in float32, whether the product is rounded by itself or not:
  ///   output = clamp(truncated(float(acc) * float_scale + float_bias) + lo, lo, hi);
  /// float_scale is negative for channels without such a form. Null if no channel has one.
  const float* float_scale = nullptr;
  const float* float_bias = nullptr;
  NarrowRequantize narrow;
  int32_t zero_point = 0;
  int32_t lo = -128;  ///< output clamp, with the activation
  int32_t hi = 127;
};

/// Number of extra readable elements behind every per-channel array that a vector kernel loads.
inline constexpr int32_t kRequantizePadding = 16;

/// The complete normative step for one accumulator of channel c; returns the output integer.
inline int32_t ApplyRequantize(int32_t acc, const RequantizeParams& p, int32_t c) {
  int32_t value = 0;
  switch (p.mode) {
    case RequantizeMode::kUpward:
      value = RequantizeUpward(acc, {p.multiplier[c], p.shift[c]});
      break;
    case RequantizeMode::kFloat:
      value = RequantizeFloat(acc, p.scale[c]);
      break;
    case RequantizeMode::kToNearest:
      value = RequantizeToNearest(acc, {p.multiplier[c], p.shift[c]});
      break;
    case RequantizeMode::kGemmlowp:
      value = RequantizeGemmlowp(acc, {p.multiplier[c], p.shift[c]});
      break;
  }
  const int64_t shifted = static_cast<int64_t>(value) + p.zero_point;
  if (shifted < p.lo) return p.lo;
  if (shifted > p.hi) return p.hi;
  return static_cast<int32_t>(shifted);
}

}  // namespace requant
