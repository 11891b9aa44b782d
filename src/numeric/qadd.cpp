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

QAddNarrow MakeQAddSimple(const QAddMultipliers& multipliers, int32_t out_zero) {
  auto [a, b, shift] = multipliers;
  while (shift > 1 && (a | b) % 2 == 0) {
    a /= 2;
    b /= 2;
    --shift;
  }
  const auto fits = [](int32_t factor) { return factor >= 0 && factor <= kSimpleFactor; };
  if (!fits(a) || !fits(b) || shift > kSimpleShift) return {};
  return {static_cast<int16_t>(a),
          static_cast<int16_t>(b),
          0,
          static_cast<int16_t>(shift),
          out_zero,
          1};
}

}  // namespace requant
