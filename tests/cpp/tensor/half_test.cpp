// Conversions of the small floats against their definitions: every code, and numbers around every
// boundary between two codes.
#include "tensor/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace requant {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A format as the standards define it (IEEE 754; ONNX's float8).
struct Format {
  DType dtype;
  int exponent_bits, mantissa_bits, bias;
  enum class Form { kIeee, kFn, kFnuz } form;

  int bits() const { return 1 + exponent_bits + mantissa_bits; }
  int sign() const { return 1 << (bits() - 1); }
  double Number(int code) const {
    const int steps = 1 << mantissa_bits, top = (1 << exponent_bits) - 1;
    const int exponent = (code & (sign() - 1)) >> mantissa_bits, mantissa = code & (steps - 1);
    const double one = code & sign() ? -1 : 1;
    if (form == Form::kFnuz && code == sign()) return NAN;
    if (form == Form::kFn && exponent == top && mantissa == steps - 1) return NAN;
    if (form == Form::kIeee && exponent == top) return mantissa != 0 ? NAN : one * kInfinity;
    return one * std::ldexp(exponent == 0 ? mantissa : mantissa + steps,
                            std::max(exponent, 1) - bias - mantissa_bits);
  }
  /// The code of the largest number.
  int Largest() const {
    int code = sign() - 1;
    while (!std::isfinite(Number(code))) --code;
    return code;
  }
};

constexpr Format kHalfFormats[] = {
    {DType::kFloat16, 5, 10, 15, Format::Form::kIeee},
    {DType::kBfloat16, 8, 7, 127, Format::Form::kIeee},
};
constexpr Format kFloat8Formats[] = {
    {DType::kFloat8E4M3FN, 4, 3, 7, Format::Form::kFn},
    {DType::kFloat8E4M3FNUZ, 4, 3, 8, Format::Form::kFnuz},
    {DType::kFloat8E5M2, 5, 2, 15, Format::Form::kIeee},
    {DType::kFloat8E5M2FNUZ, 5, 2, 16, Format::Form::kFnuz},
};

float Decode(const Format& format, int code) {
  if (format.dtype == DType::kFloat16) return HalfToFloat(static_cast<uint16_t>(code));
  if (format.dtype == DType::kBfloat16) return BfloatToFloat(static_cast<uint16_t>(code));
  return Float8ToFloat(format.dtype, static_cast<uint8_t>(code));
}

int Encode(const Format& format, float value, bool saturate = false) {
  if (format.dtype == DType::kFloat16) return FloatToHalf(value);
  if (format.dtype == DType::kBfloat16) return FloatToBfloat(value);
  return FloatToFloat8(format.dtype, value, saturate);
}

void CheckCodes(const Format& format) {
  SCOPED_TRACE(DTypeName(format.dtype));
  for (int code = 0; code < 1 << format.bits(); ++code) {
    const double number = format.Number(code);
    const float got = Decode(format, code);
    if (std::isnan(number)) {
      ASSERT_TRUE(std::isnan(got)) << code;
      ASSERT_TRUE(std::isnan(Decode(format, Encode(format, got)))) << code;
      continue;
    }
    ASSERT_EQ(static_cast<double>(got), number) << code;
    ASSERT_EQ(std::signbit(got), std::signbit(number)) << code;
    ASSERT_EQ(Encode(format, got), code);
  }
}

/// Between two neighbors: their middle goes to the even code, numbers beside it to the nearer one.
void CheckBoundaries(const Format& format) {
  SCOPED_TRACE(DTypeName(format.dtype));
  for (int code = 0; code < format.Largest(); ++code) {
    const double low = format.Number(code), high = format.Number(code + 1);
    const auto middle = static_cast<float>((low + high) / 2);
    ASSERT_EQ(static_cast<double>(middle), (low + high) / 2);
    const int even = code % 2 == 0 ? code : code + 1;
    const int sign = format.sign();
    const int negative = even == 0 && format.form == Format::Form::kFnuz ? 0 : sign | even;
    ASSERT_EQ(Encode(format, middle), even) << code;
    ASSERT_EQ(Encode(format, -middle), negative) << code;
    ASSERT_EQ(Encode(format, std::nextafter(middle, 0.0F)), code);
    ASSERT_EQ(Encode(format, std::nextafter(middle, INFINITY)), code + 1);
  }
}

TEST(Half, EveryCodeIsItsNumber) {
  for (const Format& format : kHalfFormats) CheckCodes(format);
}

TEST(Half, RoundsToTheNearestEvenCode) {
  for (const Format& format : kHalfFormats) CheckBoundaries(format);
}

TEST(Half, OverflowsToInfinity) {
  EXPECT_EQ(FloatToHalf(65519.996F), 0x7bff);
  EXPECT_EQ(FloatToHalf(65520), 0x7c00);
  EXPECT_EQ(FloatToHalf(-1e30F), 0xfc00);
  EXPECT_EQ(FloatToHalf(std::numeric_limits<float>::denorm_min()), 0);
  EXPECT_EQ(FloatToBfloat(std::numeric_limits<float>::max()), 0x7f80);
}

TEST(Half, DoublesRoundOnce) {
  // Just above the middle of two halves: by way of float32 it would become the middle.
  const double above = 1 + 0x1p-11 + 0x1p-40;
  EXPECT_EQ(FloatToHalf(RoundToOdd(above)), 0x3c01);
  EXPECT_EQ(FloatToHalf(RoundToOdd(1 + 0x1p-11)), 0x3c00);
  EXPECT_EQ(FloatToHalf(RoundToOdd(-above)), 0xbc01);
  EXPECT_EQ(RoundToOdd(0.5), 0.5F);
  EXPECT_EQ(FloatToHalf(RoundToOdd(1e300)), 0x7c00);
}

TEST(Float8, EveryCodeIsItsNumber) {
  for (const Format& format : kFloat8Formats) CheckCodes(format);
}

TEST(Float8, RoundsToTheNearestEvenCode) {
  for (const Format& format : kFloat8Formats) CheckBoundaries(format);
}

TEST(Float8, SaturatesAsOnnxSays) {
  for (const Format& format : kFloat8Formats) {
    SCOPED_TRACE(DTypeName(format.dtype));
    const int largest = format.Largest(), sign = format.sign();
    const double last = format.Number(largest), step = last - format.Number(largest - 1);
    const bool ieee = format.form == Format::Form::kIeee, uz = format.form == Format::Form::kFnuz;
    const auto beyond = static_cast<float>(last + 0.51 * step);
    EXPECT_EQ(Encode(format, static_cast<float>(last + 0.49 * step)), largest);
    EXPECT_EQ(Encode(format, beyond, true), largest);
    EXPECT_EQ(Encode(format, -beyond, true), sign | largest);
    EXPECT_EQ(Encode(format, beyond), ieee ? 0x7c : uz ? 0x80 : 0x7f);
    EXPECT_EQ(Encode(format, -beyond), ieee ? 0xfc : uz ? 0x80 : 0xff);
    EXPECT_EQ(Encode(format, INFINITY, true), uz ? 0x80 : largest);
    EXPECT_EQ(Encode(format, -INFINITY), ieee ? 0xfc : uz ? 0x80 : 0xff);
    EXPECT_EQ(Encode(format, -0.0F), uz ? 0 : 0x80);
    EXPECT_TRUE(std::isnan(Decode(format, Encode(format, NAN, true))));
  }
}

TEST(Widened, ConvertsWhenItIsRead) {
  Tensor half(DType::kFloat16, {2, 2});
  auto* bits = static_cast<uint16_t*>(half.raw());
  for (int i = 0; i < 4; ++i) bits[i] = FloatToHalf(static_cast<float>(i) - 0.5F);
  const Tensor wide = Tensor::Widened(half);
  ASSERT_NE(wide.half(), nullptr);
  EXPECT_EQ(wide.dtype(), DType::kFloat32);
  EXPECT_EQ(wide.bytes(), 16u);
  EXPECT_TRUE(wide.Holds(bits + 3));
  EXPECT_FALSE(wide.Holds(bits + 4));
  const Tensor flat = wide.Reshaped({4});
  EXPECT_EQ(flat.ToFloats(), (std::vector<float>{-0.5F, 0.5F, 1.5F, 2.5F}));
  EXPECT_TRUE(wide.SameBits(Tensor::Widened(half.Clone())));
  EXPECT_TRUE(wide.SameBits(wide.Clone()));
  EXPECT_EQ(wide.Clone().half(), nullptr);
  Tensor written = wide;
  written.data<float>()[0] = 7;
  EXPECT_EQ(written.half(), nullptr);
  EXPECT_EQ(Tensor::Widened(half).values<float>()[0], -0.5F);
}

}  // namespace
}  // namespace requant
