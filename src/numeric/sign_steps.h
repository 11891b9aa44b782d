// Signs, the bipolar codes -1 and 1, by operators that every engine has.
#pragma once

#include <cmath>
#include <cstdint>

namespace requant {

/// The numbers by which the codes -1 and 0 of a plain grid become signs. With threshold 0 its step
/// is so fine that only the sign is left; with threshold 1 it has the zero point -1 and a step a
/// little below 2 s, so that s is 1.
///
///   before   x -> bipolar grid of scale s -> y
///   after    x -> grid of `step` -> * factor -> + shift -> grid of s with the codes -1..1 -> y
///
/// A product and a sum are a table of one value in every engine that has tables; a sum alone is
/// not.
struct SignSteps {
  float step, factor, shift;
  int32_t zero_point;
};

/// `threshold` is in steps of the scale: 0 or 1.
inline SignSteps StepsOfSigns(float scale, int32_t threshold) {
  if (threshold != 0) return {2 * scale * (1 - 0x1p-20F), 1 + 0x1p-20F, -scale, -1};
  constexpr int kFine = 14;
  return {std::ldexp(scale, -kFine), std::ldexp(2.0F, kFine), scale, 0};
}

}  // namespace requant
