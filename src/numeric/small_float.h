#pragma once
// Simulated small floating-point formats: the grid of numbers with a few exponent and mantissa
// bits.
#include <algorithm>
#include <cmath>
#include <string_view>

namespace requant {

/// e4m3 is FLOAT8E4M3FN (no infinities, largest 448), e5m2 FLOAT8E5M2 (largest 57344): ONNX, after
/// Micikevicius et al. 2022, arXiv 2209.05433. Other widths use their top exponent for numbers.
struct SmallFloat {
  int exponent_bits = 4;
  int mantissa_bits = 3;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  double largest() const {
    // IEEE-like formats lose the top exponent to infinities; e4m3 loses only the NaN's code.
    if (exponent_bits == 5 && mantissa_bits == 2) return 57344;
    const int top = (1 << exponent_bits) - 1 - bias();
    const double last =
        exponent_bits == 4 && mantissa_bits == 3 ? 1.75 : 2 - std::ldexp(1, -mantissa_bits);
    return std::ldexp(last, top);
  }
};

/// Parses "e4m3", "e5m2" or "int", which is no small float: {0, 0}; returns false for other names.
inline bool ParseName(std::string_view name, SmallFloat* format) {
  if (name == "e4m3") {
    *format = {4, 3};
  } else if (name == "e5m2") {
    *format = {5, 2};
  } else if (name == "int") {
    *format = {0, 0};
  } else {
    return false;
  }
  return true;
}

/// The nearest number of the format, ties to the even mantissa; saturates. NaN comes back.
inline double RoundToSmallFloat(double x, const SmallFloat& format) {
  if (std::isnan(x)) return x;
  const double largest = format.largest();
  if (std::fabs(x) >= largest) return std::copysign(largest, x);
  int exponent = 0;
  std::frexp(x, &exponent);                                     // |x| in [2^(e-1), 2^e)
  const int floor = std::max(exponent - 1, 1 - format.bias());  // subnormals share one step
  const double step = std::ldexp(1, floor - format.mantissa_bits);
  return std::clamp(std::nearbyint(x / step) * step, -largest, largest);
}

}  // namespace requant
