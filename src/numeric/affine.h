#pragma once
// Affine quantization of scalars: real = scale * (q - zero_point). These are the normative
// definitions.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "numeric/rounding.h"

namespace requant {

/// The range of a quantized type's integers.
struct QuantizedRange {
  int32_t min = -128;
  int32_t max = 127;
};

/// The range of a `bits`-wide integer, 1 <= bits <= 31.
inline QuantizedRange RangeOfBits(int bits, bool is_signed) {
  const int64_t levels = int64_t{1} << bits;
  if (!is_signed) return {0, static_cast<int32_t>(levels - 1)};
  return {static_cast<int32_t>(-(levels / 2)), static_cast<int32_t>(levels / 2 - 1)};
}

/// ONNX QuantizeLinear: saturate(round(x / scale) + zero_point), the division in float32 (onnx
/// docs/Operators.md). A NaN becomes the zero point, infinities saturate.
inline int32_t QuantizeLinear(float x, float scale, int32_t zero_point, QuantizedRange range,
                              RoundingPolicy rounding = RoundingPolicy::kHalfEven) {
  const float scaled = x / scale;
  if (std::isnan(scaled)) return std::clamp(zero_point, range.min, range.max);
  // The double sum of a rounded float and an int32 is close enough to clamp correctly.
  const double value = static_cast<double>(RoundTo(scaled, rounding)) + zero_point;
  if (value <= range.min) return range.min;
  if (value >= range.max) return range.max;
  return static_cast<int32_t>(value);
}

/// ONNX DequantizeLinear: (q - zero_point) * scale in float32.
inline float DequantizeLinear(int32_t q, float scale, int32_t zero_point) {
  return static_cast<float>(static_cast<int64_t>(q) - zero_point) * scale;
}

/// Makes a scale safe to divide by: an empty range (all zeros) gives 1, and denormals are avoided.
inline float UsableScale(double scale) {
  if (!(scale > 0)) return 1.0f;
  const double smallest = std::numeric_limits<float>::min();
  const double largest = std::numeric_limits<float>::max();
  return static_cast<float>(std::clamp(scale, smallest, largest));
}

/// PPQ's power-of-two policy: the next power of two, 2^ceil(log2(scale)).
inline float PowerOfTwoScale(float scale) {
  int exponent = 0;
  const float significand = std::frexp(scale, &exponent);  // in [0.5, 1): exact, unlike log2
  if (significand == 0.5f) --exponent;
  return UsableScale(std::ldexp(1.0, exponent));
}

/// OneFlow's "cambricon" scale: 2^(floor(log2(max|x|)) - (bits - 2)), symmetric
/// (quantization_kernel.cpp).
inline float CambriconScale(double max_abs, int bits) {
  if (!(max_abs > 0)) return 1.0f;
  int exponent = 0;
  std::frexp(max_abs, &exponent);  // max_abs in [2^(e-1), 2^e)
  return UsableScale(std::ldexp(1.0, exponent - 1 - (bits - 2)));
}

}  // namespace requant
