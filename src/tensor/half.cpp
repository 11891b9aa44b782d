#include "tensor/half.h"

#include <cmath>

namespace requant {
namespace {

/// std::bit_cast, which the library of Emscripten lacks.
template <typename To, typename From>
To BitsAs(From from) {
  return __builtin_bit_cast(To, from);
}

}  // namespace

float HalfToFloat(uint16_t half) {
  // The exponent's bias grows from 15 to 127, which for subnormal halves needs a product.
  const uint32_t bits = uint32_t{half & 0x7fffu} << 13;
  uint32_t magnitude = BitsAs<uint32_t>(BitsAs<float>(bits) * 0x1p112F);
  if ((half & 0x7c00) == 0x7c00) magnitude |= 0x7f800000;  // infinity or NaN
  return BitsAs<float>(magnitude | uint32_t{half & 0x8000u} << 16);
}

uint16_t FloatToHalf(float value) {
  const uint32_t all = BitsAs<uint32_t>(value);
  const uint32_t bits = all & 0x7fffffff;
  uint32_t half;
  if (bits > 0x7f800000) {
    half = 0x7e00;
  } else if (bits >= 0x477ff000) {  // 65520
    half = 0x7c00;
  } else if (bits < 0x38800000) {
    // Below 2^-14 halves are multiples of 2^-24, as floats from 0.5 on are.
    half = BitsAs<uint32_t>(BitsAs<float>(bits) + 0.5F) - 0x3f000000;
  } else {
    half = (bits - (112U << 23) + 0xfff + (bits >> 13 & 1)) >> 13;
  }
  return static_cast<uint16_t>(half | (all >> 16 & 0x8000));
}

float BfloatToFloat(uint16_t half) { return BitsAs<float>(uint32_t{half} << 16); }

uint16_t FloatToBfloat(float value) {
  const uint32_t bits = BitsAs<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

void HalvesToFloats(DType dtype, const uint16_t* from, size_t count, float* to) {
  if (dtype == DType::kBfloat16) {
    for (size_t i = 0; i < count; ++i) to[i] = BfloatToFloat(from[i]);
  } else {
    for (size_t i = 0; i < count; ++i) to[i] = HalfToFloat(from[i]);
  }
}

void FloatsToHalves(DType dtype, const float* from, size_t count, uint16_t* to) {
  if (dtype == DType::kBfloat16) {
    for (size_t i = 0; i < count; ++i) to[i] = FloatToBfloat(from[i]);
  } else {
    for (size_t i = 0; i < count; ++i) to[i] = FloatToHalf(from[i]);
  }
}

float RoundToOdd(double value) {
  const float nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || !std::isfinite(value)) return nearest;
  uint32_t bits = BitsAs<uint32_t>(nearest);
  if (std::fabs(static_cast<double>(nearest)) > std::fabs(value)) --bits;  // towards zero
  return BitsAs<float>(bits | 1);
}

}  // namespace requant
