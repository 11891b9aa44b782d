#pragma once
// Fast approximations for ScalarLanes and VectorLanes alike, which agree bit for bit. Formulas and
// errors: numeric/fast_math.h; float adds some 1e-6.
#include "kernels/transcendental.h"
#include "numeric/fast_math.h"

namespace requant::fast_math {

template <typename L>
static inline __attribute__((always_inline)) typename L::Value Clamp(typename L::Value x, float low,
                                                                     float high) {
  const auto above = L::Select(L::Less(x, L::Splat(low)), L::Splat(low), x);
  return L::Select(L::Less(L::Splat(high), above), L::Splat(high), above);
}

/// e^x, 0 below e^-87.3; NaN stays NaN.
template <typename L>
static inline __attribute__((always_inline)) typename L::Value Exp(typename L::Value x) {
  using transcendental::kMagic;
  const auto clamped = Clamp<L>(x, static_cast<float>(kExpLow), static_cast<float>(kExpHigh));
  const auto shifted = L::Add(L::Mul(clamped, L::Splat(transcendental::kLog2e)), L::Splat(kMagic));
  const auto n = L::Sub(shifted, L::Splat(kMagic));
  const auto r = L::Sub(L::Sub(clamped, L::Mul(n, L::Splat(transcendental::kLn2High))),
                        L::Mul(n, L::Splat(transcendental::kLn2Low)));
  const auto e =
      transcendental::Polynomial<L>(r, static_cast<float>(kE4), static_cast<float>(kE3),
                                    static_cast<float>(kE2), static_cast<float>(kE1), 1.0f);
  const auto below = L::Less(x, L::Splat(static_cast<float>(kExpLow)));
  return L::Select(below, L::Splat(0.0f), L::Mul(e, L::PowerOfTwo(shifted)));
}

template <typename L>
static inline __attribute__((always_inline)) typename L::Value Tanh(typename L::Value x) {
  constexpr auto kEnd = static_cast<float>(kTanhEnd);
  const auto t = Clamp<L>(x, -kEnd, kEnd);
  const auto square = L::Mul(t, t);
  const auto p =
      transcendental::Polynomial<L>(square, 1.0f, static_cast<float>(kTanhP2),
                                    static_cast<float>(kTanhP1), static_cast<float>(kTanhP0));
  const auto q = transcendental::Polynomial<L>(
      square, static_cast<float>(kTanhQ3), static_cast<float>(kTanhQ2), static_cast<float>(kTanhQ1),
      static_cast<float>(kTanhP0));
  return L::Div(L::Mul(t, p), q);
}

/// 1 / (1 + e^-x) = 1/2 + tanh(x / 2) / 2
template <typename L>
static inline __attribute__((always_inline)) typename L::Value Sigmoid(typename L::Value x) {
  const auto half = L::Splat(0.5f);
  return L::Add(half, L::Mul(half, Tanh<L>(L::Mul(x, half))));
}

template <typename L>
static inline __attribute__((always_inline)) typename L::Value Erf(typename L::Value x) {
  const auto one = L::Splat(1.0f);
  auto p = transcendental::Polynomial<L>(L::Abs(x), static_cast<float>(kErf[5]),
                                         static_cast<float>(kErf[4]), static_cast<float>(kErf[3]),
                                         static_cast<float>(kErf[2]), static_cast<float>(kErf[1]),
                                         static_cast<float>(kErf[0]), 1.0f);
  for (int i = 0; i < 4; ++i) p = L::Mul(p, p);
  return L::CopySign(L::Sub(one, L::Div(one, p)), x);
}

/// x / 2 * (1 + erf(x / sqrt(2)))
template <typename L>
static inline __attribute__((always_inline)) typename L::Value Gelu(typename L::Value x) {
  const auto half = L::Mul(x, L::Splat(0.5f));
  return L::Mul(half, L::Add(L::Splat(1.0f), Erf<L>(L::Mul(x, L::Splat(0.70710678118654752f)))));
}

}  // namespace requant::fast_math
