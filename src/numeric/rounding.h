#pragma once
// Rounding of a real number to an integer; the tie rule is always named, never implied.
//
// The six policies and their definitions are those of PPQ (ppq/core/ppq/utils/round.py). Systems
// disagree on the label "half up" (QONNX rounds -2.5 to -3, PPQ to -2), so go by the definition.
// Where PPQ writes floor(x + 0.5), the addition itself can round (0.49999997f + 0.5f is 1); here
// the fraction is compared with one half exactly.
#include <cmath>
#include <string_view>

namespace requant {

enum class RoundingPolicy {
  kHalfEven,         ///< ties to the even integer (IEEE, ONNX)
  kHalfUp,           ///< ties towards +infinity: floor(x + 1/2)
  kHalfDown,         ///< ties towards -infinity: ceil(x - 1/2)
  kHalfTowardsZero,  ///< sign(x) * ceil(|x| - 1/2)
  kHalfFarFromZero,  ///< sign(x) * floor(|x| + 1/2)
  kUp,               ///< ceil(x)
};

/// Rounds x to an integer value; NaN and infinities come back unchanged.
template <typename Real>
Real RoundTo(Real x, RoundingPolicy policy) {
  switch (policy) {
    case RoundingPolicy::kHalfEven:
      return std::nearbyint(x);
    case RoundingPolicy::kHalfUp: {
      const Real below = std::floor(x);
      return x - below >= Real(0.5) ? below + 1 : below;  // x - floor(x) is exact where it matters
    }
    case RoundingPolicy::kHalfDown: {
      const Real above = std::ceil(x);
      return above - x >= Real(0.5) ? above - 1 : above;
    }
    case RoundingPolicy::kHalfTowardsZero:
      return x < 0 ? RoundTo(x, RoundingPolicy::kHalfUp) : RoundTo(x, RoundingPolicy::kHalfDown);
    case RoundingPolicy::kHalfFarFromZero:
      return x < 0 ? RoundTo(x, RoundingPolicy::kHalfDown) : RoundTo(x, RoundingPolicy::kHalfUp);
    case RoundingPolicy::kUp:
      return std::ceil(x);
  }
  return x;
}

/// The name "HALF_EVEN", ...: PPQ's spelling, used in our configuration files as well.
inline const char* RoundingPolicyName(RoundingPolicy policy) {
  switch (policy) {
    case RoundingPolicy::kHalfEven:
      return "HALF_EVEN";
    case RoundingPolicy::kHalfUp:
      return "HALF_UP";
    case RoundingPolicy::kHalfDown:
      return "HALF_DOWN";
    case RoundingPolicy::kHalfTowardsZero:
      return "HALF_TOWARDS_ZERO";
    case RoundingPolicy::kHalfFarFromZero:
      return "HALF_FAR_FROM_ZERO";
    case RoundingPolicy::kUp:
      return "UP";
  }
  return "";
}

/// Finds the policy with that name; false if there is none.
inline bool ParseName(std::string_view name, RoundingPolicy* policy) {
  for (const RoundingPolicy candidate :
       {RoundingPolicy::kHalfEven, RoundingPolicy::kHalfUp, RoundingPolicy::kHalfDown,
        RoundingPolicy::kHalfTowardsZero, RoundingPolicy::kHalfFarFromZero, RoundingPolicy::kUp}) {
    if (name == RoundingPolicyName(candidate)) {
      *policy = candidate;
      return true;
    }
  }
  return false;
}

}  // namespace requant
