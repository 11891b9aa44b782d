#pragma once
// exp and functions made of it, written once for ScalarLanes and VectorLanes. They multiply and add
// in a fixed order and never fuse, so every row gives the same bits on every machine. Freestanding.
#include "kernels/lanes.h"

namespace requant::transcendental {

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

/// c[0] * x^(n-1) + ... + c[n-1], by Horner's rule.
template <typename L, typename... Rest>
static inline __attribute__((always_inline)) typename L::Value Polynomial(const L& l,
                                                                          typename L::Value x,
                                                                          float first,
                                                                          Rest... rest) {
  typename L::Value sum = l.Splat(first);
  ((sum = l.Add(l.Mul(sum, x), l.Splat(rest))), ...);
  return sum;
}

/// e^x for x <= 0; NaN stays NaN.
template <typename L>
static inline __attribute__((always_inline)) typename L::Value Exp(const L& l,
                                                                   typename L::Value x) {
  const auto below = l.Less(x, l.Splat(kExpMin));
  const auto clamped = l.Select(below, l.Splat(kExpMin), x);
  const auto shifted = l.Add(l.Mul(clamped, l.Splat(kLog2e)), l.Splat(kMagic));
  const auto n = l.Sub(shifted, l.Splat(kMagic));
  const auto high = l.Sub(clamped, l.Mul(n, l.Splat(kLn2High)));
  const auto r = l.Sub(high, l.Mul(n, l.Splat(kLn2Low)));
  const auto q = Polynomial(l, r, kC7, kC6, kC5, kC4, kC3, kC2);
  const auto tail = l.Add(r, l.Mul(l.Mul(r, r), q));
  const auto e = l.Mul(l.Add(l.Splat(1.0f), tail), l.PowerOfTwo(shifted));
  return l.Select(below, l.Splat(0.0f), e);
}

/// 1 / (1 + e^-x), from e^-|x|, which cannot overflow.
template <typename L>
static inline __attribute__((always_inline)) typename L::Value Sigmoid(const L& l,
                                                                       typename L::Value x) {
  const auto one = l.Splat(1.0f);
  const auto e = Exp(l, l.Sub(l.Splat(0.0f), l.Abs(x)));
  const auto numerator = l.Select(l.Less(x, l.Splat(0.0f)), e, one);
  return l.Div(numerator, l.Add(one, e));
}

/// tanh. Near zero, where 1 - e^-2|x| would cancel, it is x + x^3 * P(x^2) with the coefficients of
/// Cephes (S. Moshier, tanhf.c: relative error below 1.3e-7 up to 0.625), else (1 - e) / (1 + e).
template <typename L>
static inline __attribute__((always_inline)) typename L::Value Tanh(const L& l,
                                                                    typename L::Value x) {
  const auto one = l.Splat(1.0f);
  const auto most = l.Abs(x);
  const auto square = l.Mul(x, x);
  const auto p = Polynomial(l, square, -5.70498872745e-3f, 2.06390887954e-2f, -5.37397155531e-2f,
                            1.33314422036e-1f, -3.33332819422e-1f);
  const auto small = l.Add(l.Mul(l.Mul(square, p), x), x);
  const auto e = Exp(l, l.Mul(most, l.Splat(-2.0f)));
  const auto large = l.CopySign(l.Div(l.Sub(one, e), l.Add(one, e)), x);
  return l.Select(l.Less(most, l.Splat(0.625f)), small, large);
}

/// The error function. Up to 1 it is the Maclaurin series to x^21 (the next term is below 1e-9),
/// beyond 1 Abramowitz & Stegun, "Handbook of Mathematical Functions", 7.1.26 (error below 1.5e-7).
template <typename L>
static inline __attribute__((always_inline)) typename L::Value Erf(const L& l,
                                                                   typename L::Value x) {
  const auto one = l.Splat(1.0f);
  const auto most = l.Abs(x);
  const auto square = l.Mul(x, x);
  // Coefficients 2 / sqrt(pi) * (-1)^k / (k! (2k + 1)), k = 10 ... 0.
  const auto series =
      Polynomial(l, square, 1.4807192815879217e-8f, -1.6365844691234924e-7f, 1.6462114365889246e-6f,
                 -1.4925650358406250e-5f, 1.2055332981789664e-4f, -8.5483270234508520e-4f,
                 5.2239776254421880e-3f, -2.6866170645131252e-2f, 1.1283791670955126e-1f,
                 -3.7612638903183754e-1f, 1.1283791670955126f);
  const auto t = l.Div(one, l.Add(one, l.Mul(most, l.Splat(0.3275911f))));
  const auto p = l.Mul(
      t, Polynomial(l, t, 1.061405429f, -1.453152027f, 1.421413741f, -0.284496736f, 0.254829592f));
  const auto e = Exp(l, l.Sub(l.Splat(0.0f), square));
  const auto large = l.CopySign(l.Sub(one, l.Mul(p, e)), x);
  return l.Select(l.Less(most, one), l.Mul(series, x), large);
}

/// x / 2 * (1 + erf(x / sqrt(2))) (onnx docs/Operators.md, Gelu).
template <typename L>
static inline __attribute__((always_inline)) typename L::Value Gelu(const L& l,
                                                                    typename L::Value x) {
  const auto half = l.Mul(x, l.Splat(0.5f));
  return l.Mul(half, l.Add(l.Splat(1.0f), Erf(l, l.Mul(x, l.Splat(0.70710678118654752f)))));
}

/// x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) (onnx docs/Operators.md, Gelu).
template <typename L>
static inline __attribute__((always_inline)) typename L::Value GeluTanh(const L& l,
                                                                        typename L::Value x) {
  const auto half = l.Mul(x, l.Splat(0.5f));
  const auto cube = l.Mul(l.Mul(l.Mul(x, x), x), l.Splat(0.044715f));
  const auto inner = l.Mul(l.Add(x, cube), l.Splat(0.79788456080286536f));
  return l.Mul(half, l.Add(l.Splat(1.0f), Tanh(l, inner)));
}

}  // namespace requant::transcendental
