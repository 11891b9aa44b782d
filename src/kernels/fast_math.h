#pragma once
// Fast approximations, written once for ScalarLanes and VectorLanes, which agree bit for bit.
// numeric/fast_math.h has the formulas and their errors; float32 adds about 1e-6.
#include "kernels/transcendental.h"
#include "numeric/fast_math.h"

namespace requant::fast_math {

template <typename L>
static inline __attribute__((always_inline)) typename L::Value Clamp(const L& l,
                                                                     typename L::Value x, float low,
                                                                     float high) {
  const auto above = l.Select(l.Less(x, l.Splat(low)), l.Splat(low), x);
  return l.Select(l.Less(l.Splat(high), above), l.Splat(high), above);
}

/// e^x, 0 below e^-87.3; NaN stays NaN.
template <typename L>
static inline __attribute__((always_inline)) typename L::Value Exp(const L& l,
                                                                   typename L::Value x) {
  using transcendental::kMagic;
  const auto clamped = Clamp(l, x, static_cast<float>(kExpLow), static_cast<float>(kExpHigh));
  const auto shifted = l.Add(l.Mul(clamped, l.Splat(transcendental::kLog2e)), l.Splat(kMagic));
  const auto n = l.Sub(shifted, l.Splat(kMagic));
  const auto r = l.Sub(l.Sub(clamped, l.Mul(n, l.Splat(transcendental::kLn2High))),
                       l.Mul(n, l.Splat(transcendental::kLn2Low)));
  const auto e = transcendental::Polynomial(l, r, static_cast<float>(kE4), static_cast<float>(kE3),
                                            static_cast<float>(kE2), static_cast<float>(kE1), 1.0f);
  const auto below = l.Less(x, l.Splat(static_cast<float>(kExpLow)));
  return l.Select(below, l.Splat(0.0f), l.Mul(e, l.PowerOfTwo(shifted)));
}

template <typename L>
static inline __attribute__((always_inline)) typename L::Value Tanh(const L& l,
                                                                    typename L::Value x) {
  constexpr auto kEnd = static_cast<float>(kTanhEnd);
  const auto t = Clamp(l, x, -kEnd, kEnd);
  const auto square = l.Mul(t, t);
  const auto p =
      transcendental::Polynomial(l, square, 1.0f, static_cast<float>(kTanhP2),
                                 static_cast<float>(kTanhP1), static_cast<float>(kTanhP0));
  const auto q = transcendental::Polynomial(
      l, square, static_cast<float>(kTanhQ3), static_cast<float>(kTanhQ2),
      static_cast<float>(kTanhQ1), static_cast<float>(kTanhP0));
  return l.Div(l.Mul(t, p), q);
}

/// 1 / (1 + e^-x) = 1/2 + tanh(x / 2) / 2
template <typename L>
static inline __attribute__((always_inline)) typename L::Value Sigmoid(const L& l,
                                                                       typename L::Value x) {
  const auto half = l.Splat(0.5f);
  return l.Add(half, l.Mul(half, Tanh(l, l.Mul(x, half))));
}

template <typename L>
static inline __attribute__((always_inline)) typename L::Value Erf(const L& l,
                                                                   typename L::Value x) {
  const auto one = l.Splat(1.0f);
  auto p = transcendental::Polynomial(l, l.Abs(x), static_cast<float>(kErf[5]),
                                      static_cast<float>(kErf[4]), static_cast<float>(kErf[3]),
                                      static_cast<float>(kErf[2]), static_cast<float>(kErf[1]),
                                      static_cast<float>(kErf[0]), 1.0f);
  for (int i = 0; i < 4; ++i) p = l.Mul(p, p);
  return l.CopySign(l.Sub(one, l.Div(one, p)), x);
}

/// x / 2 * (1 + erf(x / sqrt(2)))
template <typename L>
static inline __attribute__((always_inline)) typename L::Value Gelu(const L& l,
                                                                    typename L::Value x) {
  const auto half = l.Mul(x, l.Splat(0.5f));
  return l.Mul(half, l.Add(l.Splat(1.0f), Erf(l, l.Mul(x, l.Splat(0.70710678118654752f)))));
}

}  // namespace requant::fast_math
