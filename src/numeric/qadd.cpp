#include "numeric/qadd.h"

#include <cmath>
#include <string>

#include "base/error.h"
#include "base/str_cat.h"

namespace requant {

QAddMultipliers MakeQAddMultipliers(double ratio_a, double ratio_b) {
  const double largest = std::fmax(std::fabs(ratio_a), std::fabs(ratio_b));
  if (!std::isfinite(ratio_a) || !std::isfinite(ratio_b) || largest >= 1048576.0) {
    Fail(ErrorCode::kInvalidQuantization,
         StrCat("scale ratios ", ratio_a, " and ", ratio_b,
                " of an 8-bit addition are out of range"),
         {.hint = "an operand's scale must be finite and less than 2^20 output scales"});
  }
  constexpr int32_t kLimit = 1 << 21;
  constexpr int kMostShift = 30;
  int exponent = 0;
  std::frexp(largest, &exponent);
  int shift = largest == 0 ? kMostShift : 21 - exponent;
  shift = shift < kMostShift ? shift : kMostShift;
  // Rounding may reach the limit itself (a ratio just below a power of two).
  if (std::round(std::ldexp(largest, shift)) >= kLimit) --shift;
  return {static_cast<int32_t>(std::round(std::ldexp(ratio_a, shift))),
          static_cast<int32_t>(std::round(std::ldexp(ratio_b, shift))), shift};
}

}  // namespace requant
