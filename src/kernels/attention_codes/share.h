#pragma once
// The shares of keys, written once for ScalarLanes and VectorLanes, which agree bit for bit.
// Freestanding.
#include "kernels/transcendental.h"
#include "numeric/fast_math.h"

namespace requant {

inline constexpr float kWholeShare = 65535.0f;

/// 65535 * e^x for x <= 0, as 65535 * 2^n * e^(f ln 2) with a whole n and |f| <= 1/2, by the
/// polynomial of numeric/fast_math.h, whose relative error is below 3e-6. Below -20, where it
/// rounds to 0, x counts as -20.
template <typename L>
static inline __attribute__((always_inline)) typename L::Value ShareOf(const L& l,
                                                                       typename L::Value x) {
  constexpr double kLn2 = 2 * fast_math::kHalfLn2;
  constexpr double c1 = fast_math::kE1 * kLn2 * kWholeShare;
  constexpr double c2 = fast_math::kE2 * kLn2 * kLn2 * kWholeShare;
  constexpr double c3 = fast_math::kE3 * kLn2 * kLn2 * kLn2 * kWholeShare;
  constexpr double c4 = fast_math::kE4 * kLn2 * kLn2 * kLn2 * kLn2 * kWholeShare;
  const auto magic = l.Splat(transcendental::kMagic);
  const auto t = l.Mul(l.Max(x, l.Splat(-20.0f)), l.Splat(transcendental::kLog2e));
  const auto shifted = l.Add(t, magic);
  const auto f = l.Sub(t, l.Sub(shifted, magic));
  const auto p =
      transcendental::Polynomial(l, f, static_cast<float>(c4), static_cast<float>(c3),
                                 static_cast<float>(c2), static_cast<float>(c1), kWholeShare);
  return l.Mul(p, l.PowerOfTwo(shifted));
}

}  // namespace requant
