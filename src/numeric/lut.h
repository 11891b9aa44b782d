// Tables of 256 entries: any function of one 8-bit operand, or a change of scale, becomes one
// lookup. The index is the operand's BIT PATTERN, so the same kernel serves int8 and uint8 on both
// sides.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

namespace requant {

/// The format of an 8-bit value: real = scale * (q - zero_point).
struct ByteScale {
  float scale;
  int32_t zero_point;
  bool is_signed;

  int32_t Min() const { return is_signed ? -128 : 0; }
  int32_t Max() const { return is_signed ? 127 : 255; }
  /// The integer of a bit pattern.
  int32_t Decode(int bits) const {
    return is_signed ? static_cast<int8_t>(static_cast<uint8_t>(bits)) : bits;
  }
};

using ByteTable = std::array<uint8_t, 256>;

/// sat(half_even(real / scale) + zero_point), clamped to [lo, hi]; NaN gives the zero point
/// (QuantizeLinear, onnx docs/Operators.md).
inline int32_t QuantizeByte(float real, const ByteScale& to, int32_t lo, int32_t hi) {
  float steps = real / to.scale;
  if (std::isnan(steps)) steps = 0;
  // Clamp before rounding: the bounds are integers, so the result is the same and int32 is safe.
  const float least = static_cast<float>(lo - to.zero_point);
  const float most = static_cast<float>(hi - to.zero_point);
  steps = steps < least ? least : (steps > most ? most : steps);
  return static_cast<int32_t>(std::nearbyint(steps)) + to.zero_point;
}

/// Dequantize -> function -> quantize over all bit patterns, like ONNX Runtime's QLinearSigmoid and
/// QLinearLeakyRelu (onnxruntime contrib_ops/cpu/quantization/qlinear_lookup_table.cc). `function`
/// maps float to float. The result is clamped to [lo, hi] within the output's range, which computes
/// a following Relu or Clip.
template <typename Function>
ByteTable MakeByteTable(const ByteScale& from, const ByteScale& to, Function&& function,
                        int32_t lo = -128, int32_t hi = 255) {
  lo = lo < to.Min() ? to.Min() : lo;
  hi = hi > to.Max() ? to.Max() : hi;
  ByteTable table{};
  for (int bits = 0; bits < 256; ++bits) {
    const float real = from.scale * static_cast<float>(from.Decode(bits) - from.zero_point);
    table[bits] = static_cast<uint8_t>(QuantizeByte(function(real), to, lo, hi));
  }
  return table;
}

/// A table that only changes the scale (an operand of Concat, a Q-DQ pair between two scales).
inline ByteTable MakeRescaleTable(const ByteScale& from, const ByteScale& to) {
  return MakeByteTable(from, to, [](float real) { return real; });
}

}  // namespace requant
