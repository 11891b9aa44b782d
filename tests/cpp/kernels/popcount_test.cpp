// Convolutions by counting bits: every pair of 1 to 8 bits by 1 to 8 bits, in both forms, against
// the scalar row. REQUANT_LONG: more shapes of each.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "kernels/bitserial/pack.h"
#include "kernels/bitserial/popcount.h"
#include "kernels/conv_testing.h"
#include "numeric/requantize_prepare.h"

namespace requant {
namespace {

using namespace window_testing;

constexpr const char* kForms[] = {"conv_q8_popcount", "conv_q8_carry_save"};

int ShapesOfAPair() { return std::getenv("REQUANT_LONG") != nullptr ? 40 : 4; }

int32_t Pick(std::mt19937& random, int32_t lo, int32_t hi) {
  return lo + static_cast<int32_t>(random() % static_cast<uint32_t>(hi - lo + 1));
}

/// 1 to 130 channels, odd sizes, strides, pads, dilations, groups, batches.
ConvGeometry RandomGeometry(std::mt19937& random) {
  const int32_t groups = Pick(random, 0, 3) == 0 ? Pick(random, 2, 4) : 1;
  const int32_t dilation = Pick(random, 1, 3), kh = Pick(random, 1, 4), kw = Pick(random, 1, 4);
  const int32_t least = (std::max(kh, kw) - 1) * dilation + 1;
  return Geometry(least + Pick(random, 0, 6), least + Pick(random, 0, 9),
                  groups * Pick(random, 1, 130 / groups), groups * Pick(random, 1, 40 / groups), kh,
                  kw, Pick(random, 1, 3), Pick(random, 0, 3), dilation, groups, Pick(random, 1, 2));
}

/// The signs of codes and weights: all from 0 on, both around 0, or one of each.
enum class Polarity { kUnipolar, kBipolar, kMixed };

/// Codes of `bits` bits from `lo` on, and weights of `weight_bits` bits.
struct BitCase {
  Q8Case base;

  /// `extreme`: 1 for all lowest, 2 for all highest, else random.
  BitCase(std::mt19937& random, const ConvGeometry& geometry, int bits, int weight_bits,
          Polarity polarity, int extreme)
      : base(random, geometry, 0, false) {
    Q8Case& c = base;
    c.g.input_stride = geometry.in_c + extreme % 3;
    const int32_t span = (1 << bits) - 1, weight_span = (1 << weight_bits) - 1;
    c.input_signed = polarity == Polarity::kBipolar;
    const int32_t lo = c.input_signed ? -((span + 1) / 2) : bits < 8 ? 3 : 0;
    c.input_zero_point = lo + Pick(random, 0, span);
    c.input.resize(Elements(c.g.batch * c.g.in_h * c.g.in_w, c.g.input_stride, c.g.in_c));
    const auto choose = [&](int32_t most) {
      return extreme == 1 ? 0 : extreme == 2 ? most : Pick(random, 0, most);
    };
    for (uint8_t& code : c.input) code = static_cast<uint8_t>(lo + choose(span));
    // Unipolar and mixed weights are 0 .. 2^b - 1, shifted by a middle if mixed; bipolar weights
    // are odd numbers around 0.
    c.weight_signed = true;
    c.weights.resize(WeightCount(c.g));
    for (uint8_t& w : c.weights) {
      const int32_t u = choose(weight_span);
      const int32_t value = polarity == Polarity::kMixed || weight_bits == 8
                                ? u - (weight_span + 1) / 2
                            : polarity == Polarity::kBipolar ? 2 * u - weight_span
                                                             : u;
      w = static_cast<uint8_t>(value);
    }
    c.view.data = c.weights.data();
    c.view.is_signed = true;
    c.view.input_lo = lo;
    c.view.input_hi = lo + span;
  }
};

TEST(ConvPopcount, EveryPairOfWidthsMatchesTheScalarRow) {
  std::mt19937 random(51);
  const ConvQ8Kernel& scalar = Row("conv_q8_scalar");
  int at = 0;
  for (int bits = 1; bits <= 8; ++bits) {
    for (int weight_bits = 1; weight_bits <= 8; ++weight_bits) {
      for (int shape = 0; shape < ShapesOfAPair(); ++shape, ++at) {
        const ConvGeometry g = RandomGeometry(random);
        const BitCase test(random, g, bits, weight_bits, static_cast<Polarity>(at % 3), at % 5);
        const Q8Case& c = test.base;
        ASSERT_TRUE(bitserial::PopcountSupports(c.view, c.g));
        const int32_t rows = ConvRows(c.g);
        std::vector<int32_t> expected(Elements(rows, c.g.output_stride, c.g.out_c), 0x5A5A5A5A);
        const std::vector<int32_t> untouched = expected;
        c.Run(scalar, ConvQ8Output::kInt32, {}, {0, rows}, expected.data());
        for (const char* form : kForms) {
          std::vector<int32_t> got = untouched;
          c.Run(Row(form), ConvQ8Output::kInt32, {}, Cuts(random, rows), got.data());
          ASSERT_EQ(got, expected) << form << " A" << bits << "W" << weight_bits << " polarity "
                                   << at % 3 << " extreme " << at % 5 << " " << Describe(c.g);
        }
      }
    }
  }
}

TEST(ConvPopcount, WholeBytesOfAnyTypeMatchTheScalarRow) {
  std::mt19937 random(52);
  int variant = 0;
  for (const ConvGeometry& geometry : Geometries()) {
    Q8Case c(random, geometry, variant++, false);
    c.view.input_lo = c.input_signed ? -128 : 0;
    c.view.input_hi = c.view.input_lo + 255;
    if (!bitserial::PopcountSupports(c.view, c.g)) {
      ASSERT_FALSE(c.weight_zero_points.empty()) << Describe(c.g);
      continue;
    }
    const int32_t rows = ConvRows(c.g);
    std::vector<int64_t> bounds(c.g.out_c);
    ConvQ8AccumulatorBounds(c.view, 255, bounds.data());
    const std::vector<double> multipliers(static_cast<size_t>(c.g.out_c), 0.01);
    const PreparedRequantize prepared =
        PrepareRequantize(variant % 2 ? RequantizeMode::kUpward : RequantizeMode::kFloat,
                          multipliers, bounds, 3, 0, variant % 4 ? 255 : 15);
    std::vector<uint8_t> expected(Elements(rows, c.g.output_stride, c.g.out_c), 0xA5);
    const std::vector<uint8_t> untouched = expected;
    c.Run(Row("conv_q8_scalar"), ConvQ8Output::kUint8, prepared.Params(), {0, rows},
          expected.data());
    for (const char* form : kForms) {
      std::vector<uint8_t> got = untouched;
      c.Run(Row(form), ConvQ8Output::kUint8, prepared.Params(), Cuts(random, rows), got.data());
      ASSERT_EQ(got, expected) << form << " " << Describe(c.g);
    }
  }
}

TEST(ConvPopcount, DeepSumsOfBytesAreWidenedInTime) {
  std::mt19937 random(53);
  for (const int32_t channels : {991, 992, 993, 2048, 7937, 8193, 16000}) {
    const ConvGeometry g = Geometry(1, 5, channels, 9, 1, 1, 1, 0);
    const BitCase test(random, g, 1, 1, Polarity::kUnipolar, 2);
    std::vector<int32_t> expected(size_t{5} * 9), got = expected;
    test.base.Run(Row("conv_q8_scalar"), ConvQ8Output::kInt32, {}, {0, 5}, expected.data());
    for (const char* form : kForms) {
      test.base.Run(Row(form), ConvQ8Output::kInt32, {}, {0, 5}, got.data());
      ASSERT_EQ(got, expected) << form << " " << channels;
    }
  }
}

TEST(ConvPopcount, WeightsTakeTheirBits) {
  std::mt19937 random(54);
  const ConvGeometry g = Geometry(7, 7, 512, 512, 3, 3, 1, 1);
  const size_t weights = size_t{512} * 512 * 9;
  const size_t rest = size_t{512} * 8 + sizeof(bitserial::PopcountHeader);  // biases and sums
  for (const int bits : {1, 2, 3, 8}) {
    const BitCase test(random, g, 2, bits, Polarity::kUnipolar, 0);
    EXPECT_EQ(Row("conv_q8_popcount").packed_size(test.base.view),
              weights * static_cast<size_t>(bits) / 8 + rest);
  }
}

}  // namespace
}  // namespace requant
