// The floats of 8 bits. FN: no infinities. UZ: no negative zero; the code of it is NaN.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tensor/half.h"

namespace requant {
namespace {

struct Format {
  int mantissa_bits;
  int bias;
  bool infinities;  // as in IEEE 754; else the top exponent has numbers
  bool uz;

  /// The codes of the largest number and of NaN, without a sign.
  int largest() const { return infinities ? 0x7b : uz ? 0x7f : 0x7e; }
};

Format FormatOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat8E4M3FN:
      return {3, 7, false, false};
    case DType::kFloat8E4M3FNUZ:
      return {3, 8, false, true};
    case DType::kFloat8E5M2:
      return {2, 15, true, false};
    default:
      return {2, 16, false, true};
  }
}

/// The value of a code without a sign that is a number.
float Magnitude(const Format& format, int code) {
  const int steps = 1 << format.mantissa_bits;
  const int exponent = code >> format.mantissa_bits;
  const int mantissa = code & (steps - 1);
  return std::ldexp(static_cast<float>(exponent == 0 ? mantissa : mantissa + steps),
                    std::max(exponent, 1) - format.bias - format.mantissa_bits);
}

}  // namespace

float Float8ToFloat(DType dtype, uint8_t code) {
  const Format format = FormatOf(dtype);
  const int unsigned_code = code & 0x7f;
  if (format.uz && code == 0x80) return std::numeric_limits<float>::quiet_NaN();
  const float sign = code & 0x80 ? -1.0F : 1.0F;
  if (unsigned_code <= format.largest()) return sign * Magnitude(format, unsigned_code);
  if (format.infinities && unsigned_code == 0x7c) {
    return sign * std::numeric_limits<float>::infinity();
  }
  return std::copysign(std::numeric_limits<float>::quiet_NaN(), sign);
}

uint8_t FloatToFloat8(DType dtype, float value, bool saturate) {
  const Format format = FormatOf(dtype);
  const int sign = std::signbit(value) ? 0x80 : 0;
  const int nan = format.uz ? 0x80 : sign | 0x7f;
  if (std::isnan(value) || (std::isinf(value) && format.uz)) return static_cast<uint8_t>(nan);
  const float magnitude = std::fabs(value);
  const int largest = format.largest();
  const int too_large = saturate ? sign | largest : format.infinities ? sign | 0x7c : nan;
  if (std::isinf(value)) return static_cast<uint8_t>(too_large);
  if (magnitude == 0) return static_cast<uint8_t>(format.uz ? 0 : sign);
  int exponent = 0;
  std::frexp(magnitude, &exponent);  // magnitude < 2^exponent
  exponent = std::max(exponent - 1, 1 - format.bias);
  const auto steps =
      static_cast<int64_t>(std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent)));
  // A code grows by one from one number to the next, also where a mantissa overflows.
  const int64_t code = ((int64_t{exponent} + format.bias - 1) << format.mantissa_bits) + steps;
  if (code > largest) return static_cast<uint8_t>(too_large);
  if (code == 0 && format.uz) return 0;
  return static_cast<uint8_t>(sign | static_cast<int>(code));
}

}  // namespace requant
