// The normative scalars of 8-bit addition and multiplication. Vector kernels, the interpreter and
// generated code must give these integers bit for bit. Plain <stdint.h> only: the freestanding
// kernel modules include this file.
#pragma once

#include <stdint.h>

#include "numeric/requantize.h"

namespace requant {

/// The operands' scales in units of 2^-shift of the output's scale.
struct QAddMultipliers {
  int32_t a;      // |a| < 2^21, negative values subtract
  int32_t b;      // |b| < 2^21
  int32_t shift;  // 1..30
};

/// Integers for s_a/s_c and s_b/s_c (give a negative ratio_b for a subtraction) with ONE common
/// exponent, the largest `shift` <= 30 for which both stay below 2^21 in magnitude:
///   a = round(ratio_a * 2^shift), b = round(ratio_b * 2^shift).
/// The bound: |q - z| <= 255, so each product is below 255 * 2^21 < 2^29, their sum below 2^30, and
/// with the rounding constant 2^(shift-1) <= 2^29 everything stays inside int32.
/// Throws kInvalidQuantization for a ratio that is not finite or not below 2^20.
QAddMultipliers MakeQAddMultipliers(double ratio_a, double ratio_b);

namespace qadd_internal {

/// value + zero, clamped. The sum takes 64 bits because the value may be saturated.
inline int32_t ClampSum(int32_t value, int32_t zero, int32_t lo, int32_t hi) {
  const int64_t sum = static_cast<int64_t>(value) + zero;
  return sum < lo ? lo : (sum > hi ? hi : static_cast<int32_t>(sum));
}

}  // namespace qadd_internal

/// Integer-only addition: ((a * Ma + b * Mb) + 2^(shift-1)) >> shift, so that ties go towards
/// +infinity; then the zero point, then the clamp. `a` and `b` come without their zero points.
inline int32_t QAddFixed(int32_t a, int32_t b, const QAddMultipliers& multipliers, int32_t out_zero,
                         int32_t lo, int32_t hi) {
  const int32_t sum = a * multipliers.a + b * multipliers.b;
  const int32_t rounded = (sum + (1 << (multipliers.shift - 1))) >> multipliers.shift;
  return qadd_internal::ClampSum(rounded, out_zero, lo, hi);
}

/// The values that an operand can have, without its zero point.
struct QAddRange {
  int32_t lo, hi;
};

/// QAddFixed in 16 bits, for operands of few codes or factors of few bits:
///   ((a * Na + b * Nb + bias + 2^(shift-1)) >> shift) + middle, clamped.
/// A `shift` of 0 means that no such form exists.
struct QAddNarrow {
  int16_t a = 0, b = 0, bias = 0, shift = 0;
  int32_t middle = 0;
  /// 0 from MakeQAddNarrow: no sum leaves int16, except by the rounding constant. 1 from
  /// MakeQAddSimple: this holds for sums without the zero points' share; otherwise sums saturate,
  /// and there is no bias.
  int32_t saturates = 0;
  QAddRange a_range = {0, -1}, b_range = {0, -1};  ///< the ranges given to MakeQAddNarrow
};

/// A form in 16 bits for all codes. It exists if, after common powers of two are taken out, both
/// factors are at most kSimpleFactor and `shift` is at most kSimpleShift: codes in [-128, 127]
/// times two such factors stay inside int16, and a sum that saturates with its zero points is 256
/// steps off, beyond every clamp. The quantizer chooses scales of sums as such fractions
/// (quant/grid/simple_sums.h).
QAddNarrow MakeQAddSimple(const QAddMultipliers& multipliers, int32_t out_zero);
inline constexpr int32_t kSimpleFactor = 127, kSimpleShift = 7;

/// A form in 16 bits that gives QAddFixed's integer for every pair of the ranges. It is found by
/// trying neighbors of the rounded ratios, and proven by going through all pairs; for more than
/// 1024 pairs none is looked for.
QAddNarrow MakeQAddNarrow(const QAddMultipliers& multipliers, QAddRange a, QAddRange b,
                          int32_t out_zero, int32_t lo, int32_t hi);

/// ONNX Runtime's QLinearAdd (mlas/lib/qladd.cpp, the scalar form): float, with one rounding each,
///   nearbyint((s_a * a + s_b * b) / s_c + z_c)
/// where the zero point is added BEFORE rounding and the division is a true division. Some CPUs use
/// fixed point, so a difference of one step between CPUs is normal; this is the definition without
/// shortcuts. A negative b_scale subtracts; all other scales are positive.
inline int32_t QAddFloat(int32_t a, int32_t b, float a_scale, float b_scale, float out_scale,
                         int32_t out_zero, int32_t lo, int32_t hi) {
  const float real_a = a_scale * static_cast<float>(a);
  const float real_b = b_scale * static_cast<float>(b);
  const float real = real_a + real_b;
  float value = real / out_scale;
  const float least = static_cast<float>(lo - out_zero);
  const float most = static_cast<float>(hi - out_zero);
  value = value < least ? least : value;
  value = value > most ? most : value;
  value = value + static_cast<float>(out_zero);
  return static_cast<int32_t>(__builtin_nearbyintf(value));
}

/// Integer-only multiplication: one requantization of the product by s_a * s_b / s_c, ties upward.
inline int32_t QMulFixed(int32_t a, int32_t b, FixedMultiplier multiplier, int32_t out_zero,
                         int32_t lo, int32_t hi) {
  return qadd_internal::ClampSum(RequantizeUpward(a * b, multiplier), out_zero, lo, hi);
}

/// Float multiplication (ONNX Runtime's QLinearMul, mlas/lib/qlmul.cpp): one float factor scale =
/// float(s_a * s_b / s_c), half-even, the zero point added after rounding.
inline int32_t QMulFloat(int32_t a, int32_t b, float scale, int32_t out_zero, int32_t lo,
                         int32_t hi) {
  return qadd_internal::ClampSum(RequantizeFloat(a * b, scale), out_zero, lo, hi);
}

}  // namespace requant
