// Winograd convolutions of 3x3 windows give the definition's integers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "kernels/conv/winograd/winograd.h"
#include "kernels/conv_testing.h"
#include "numeric/requantize_prepare.h"

namespace requant {
namespace {

using namespace window_testing;

constexpr const char* kRows[] = {"conv_q8_winograd_narrow", "conv_q8_winograd_dot8"};
constexpr const char* k4x3 = "conv_q8_winograd_4x3_dot8";
constexpr const char* kPairRows[] = {"conv_q8_winograd_pairs", "conv_q8_winograd_4x4_pairs"};
constexpr const char* kStridedRows[] = {"conv_q8_winograd_strided_narrow",
                                        "conv_q8_winograd_strided_dot8"};
constexpr const char* kStridedPairs = "conv_q8_winograd_strided_pairs";

ConvGeometry RandomGeometry(std::mt19937& random, int i, int32_t stride = 1) {
  const auto of = [&random](uint32_t n) { return static_cast<int32_t>(random() % n); };
  const int32_t pad = i % 5 == 4 ? 3 : of(3);
  ConvGeometry g = Geometry(3 + of(12), 3 + of(15), 16 * (1 + of(9)), 1 + of(70), 3, 3, stride, pad,
                            1, 1, 1 + i % 3);
  // Only the pads at the top and the left are set: larger ones shift the remainders at the other
  // sides.
  if (i % 4 == 3) g.pad_top = of(2), g.pad_left = of(3);
  return g;
}

TEST(ConvWinograd, EveryPairOfWidthsMatchesTheDefinition) {
  std::mt19937 random(41);
  constexpr Widths kWidths[] = {{4, 4}, {5, 4}, {4, 2}, {2, 4}, {1, 1}, {3, 3}, {5, 1}, {4, 3}};
  int variant = 0;
  for (int i = 0; i < 80; ++i) {
    const int32_t stride = 1 + i % 2;
    const ConvGeometry geometry = RandomGeometry(random, i / 2, stride);
    for (int repeat = 0; repeat < 2; ++repeat) {
      const Widths widths = kWidths[variant % 8];
      const Q8Case test = NarrowCase(random, geometry, ++variant, widths.inputs, widths.weights);
      const std::vector<int32_t> expected = Definition(test);
      for (const char* name : stride == 1 ? kRows : kStridedRows) {
        const ConvQ8Kernel& row = Row(name);
        ASSERT_TRUE(row.supports(test.view, test.g)) << name << " " << Describe(test.g);
        std::vector<int32_t> got(expected.size(), 0x5A5A5A5A);
        test.Run(row, ConvQ8Output::kInt32, {}, Cuts(random, ConvRows(test.g)), got.data());
        ASSERT_EQ(got, expected) << name << " " << Describe(test.g) << " inputs " << widths.inputs
                                 << " weights " << widths.weights << " bits, " << variant;
      }
    }
  }
}

TEST(ConvWinograd, TwoBitsMatchTheDefinition) {
  std::mt19937 random(47);
  const ConvQ8Kernel& row = Row(k4x3);
  constexpr Ends kEnds[] = {Ends::kNone, Ends::kHigh, Ends::kLow, Ends::kBoth};
  constexpr std::array<int32_t, 2> kRanges[] = {{-2, 1}, {-1, 1}, {-1, 2}, {0, 1}};
  for (int i = 0; i < 80; ++i) {
    ConvGeometry geometry = RandomGeometry(random, i);
    // Six tiles are multiplied in registers, and more steps are needed than are transformed at
    // once.
    if (i % 8 == 5) geometry = Geometry(7 + i % 2, 9, 16 * (1 + i % 13), 9, 3, 3, 1, 1);
    Q8Case test = NarrowCase(random, geometry, i, 2, 2);
    // At most five codes, and weights of any two bits.
    if (i % 3 == 2) test.view.input_hi = test.view.input_lo + 4;
    Limit(random, test.input, test.view.input_lo, test.view.input_hi, kEnds[i / 2 % 4]);
    const auto [lo, hi] = kRanges[i % 4];
    test.view.zero_points = nullptr;
    test.weight_zero_points.clear();
    Limit(random, test.weights, lo, hi, kEnds[i / 8 % 4]);
    ASSERT_TRUE(row.supports(test.view, test.g)) << Describe(test.g);
    const std::vector<int32_t> expected = Definition(test);
    std::vector<int32_t> got(expected.size(), 0x5A5A5A5A);
    test.Run(row, ConvQ8Output::kInt32, {}, Cuts(random, ConvRows(test.g)), got.data());
    ASSERT_EQ(got, expected) << Describe(test.g) << " case " << i;
  }
}

TEST(ConvWinograd, EightBitsMatchTheDefinition) {
  std::mt19937 random(45);
  int runs = 0;
  for (int i = 0; i < 150; ++i) {
    const int32_t stride = 1 + i / 100;
    ConvGeometry geometry = RandomGeometry(random, i, stride);
    if (i % 10 == 9) geometry = Geometry(9 + i % 30, 40, 8, 9, 3, 3, stride, 1);
    const int32_t channels = i == 24 ? 1024 : 8 * (1 + static_cast<int32_t>(random() % 12));
    geometry.input_stride += channels - geometry.in_c;
    geometry.in_c = channels;
    // Random bytes and the ends of their types, with zero points.
    const Q8Case test = i % 3 == 0 ? Q8Case(random, geometry, 4 * i, false)
                                   : NarrowCase(random, geometry, i, 8, 8 - i % 2);
    const std::vector<int32_t> expected = Definition(test);
    for (const char* name : {kPairRows[0], kPairRows[1], kStridedPairs}) {
      const ConvQ8Kernel& row = Row(name);
      if (!row.supports(test.view, test.g)) continue;
      ++runs;
      std::vector<int32_t> got(expected.size(), 0x5A5A5A5A);
      test.Run(row, ConvQ8Output::kInt32, {}, Cuts(random, ConvRows(test.g)), got.data());
      ASSERT_EQ(got, expected) << name << " " << Describe(test.g) << " variant " << i;
    }
  }
  EXPECT_GT(runs, 180);
}

TEST(ConvWinograd, WritesTheRowsThatItIsAskedFor) {
  std::mt19937 random(46);
  for (int i = 0; i < 60; ++i) {
    const int32_t bits = i % 3 == 2 ? 2 : 4;
    const Q8Case test = NarrowCase(random, RandomGeometry(random, i, 1 + i / 30), i, bits, bits);
    const int32_t rows = ConvRows(test.g), stride = test.g.output_stride;
    const int32_t begin = static_cast<int32_t>(random() % static_cast<uint32_t>(rows));
    const int32_t end = begin + 1 + static_cast<int32_t>(random() % (rows - begin));
    std::vector<int32_t> expected = Definition(test);
    for (int32_t at = 0; at < static_cast<int32_t>(expected.size()); ++at) {
      if (at / stride < begin || at / stride >= end) expected[at] = 0x5A5A5A5A;
    }
    for (const char* name : {kRows[0], kRows[1], k4x3, kPairRows[0], kPairRows[1], kStridedRows[0],
                             kStridedRows[1], kStridedPairs}) {
      const ConvQ8Kernel& row = Row(name);
      if (!row.supports(test.view, test.g)) continue;
      std::vector<int32_t> got(expected.size(), 0x5A5A5A5A);
      test.Run(row, ConvQ8Output::kInt32, {}, {begin, end}, got.data());
      ASSERT_EQ(got, expected) << name << " " << Describe(test.g) << ", " << begin << " to " << end;
    }
  }
}

TEST(ConvWinograd, ManyPanelsAndDeepWindows) {
  std::mt19937 random(42);
  // Several panels that cut lines of tiles; more steps than are transformed at once; few tiles.
  const ConvGeometry geometries[] = {
      Geometry(33, 47, 16, 9, 3, 3, 1, 1),           Geometry(9, 150, 32, 8, 3, 3, 1, 1),
      Geometry(4, 4, 512, 16, 3, 3, 1, 1),           Geometry(3, 3, 2048, 8, 3, 3, 1, 1),
      Geometry(12, 12, 256, 8, 3, 3, 1, 0, 1, 1, 4), Geometry(65, 90, 16, 9, 3, 3, 2, 1),
      Geometry(8, 8, 512, 16, 3, 3, 2, 1),           Geometry(23, 24, 256, 8, 3, 3, 2, 0, 1, 1, 4)};
  // The bits of codes and weights for these rows.
  struct Form {
    int32_t inputs, weights;
    std::vector<const char*> rows;
  };
  const Form forms[] = {{5, 4, {kRows[0], kRows[1], kStridedRows[0], kStridedRows[1]}},
                        {2, 2, {k4x3}},
                        {8, 8, {kPairRows[0], kPairRows[1], kStridedPairs}}};
  int variant = 0, runs = 0;
  for (const ConvGeometry& geometry : geometries) {
    for (const Ends ends : {Ends::kNone, Ends::kHigh, Ends::kLow, Ends::kBoth}) {
      ++variant;
      for (const Form& form : forms) {
        Q8Case test = NarrowCase(random, geometry, variant, form.inputs, form.weights);
        Limit(random, test.input, test.view.input_lo, test.view.input_hi, ends);
        const int32_t half = 1 << (form.weights - 1);
        Limit(random, test.weights, -half, half - 1, variant % 3 == 0 ? Ends::kBoth : ends);
        test.view.zero_points = nullptr;
        test.weight_zero_points.clear();
        const std::vector<int32_t> expected = Definition(test);
        for (const char* name : form.rows) {
          // The row does not support sums of 8-bit extremes over many channels.
          if (!Row(name).supports(test.view, test.g)) continue;
          ++runs;
          std::vector<int32_t> got(expected.size(), 0x5A5A5A5A);
          test.Run(Row(name), ConvQ8Output::kInt32, {}, Cuts(random, ConvRows(test.g)), got.data());
          ASSERT_EQ(got, expected) << name << " " << Describe(test.g) << " variant " << variant;
        }
      }
    }
  }
  EXPECT_GT(runs, 80);
}

/// The number of steps that the row adds up in int16 in the first block.
int32_t Segment(const char* name, const ConvQ8Weights& weights) {
  const ConvQ8Kernel& row = Row(name);
  std::vector<uint8_t> packed(row.packed_size(weights));
  row.pack_weights(weights, packed.data());
  conv::WinogradNarrowBlock<conv::kWinogradNarrow.Points()> block;
  std::memcpy(&block, packed.data() + sizeof(conv::WinogradNarrowHeader), sizeof block);
  return block.segment;
}

TEST(ConvWinograd, SegmentsAreAsLongAsTheOperandsAllow) {
  std::mt19937 random(43);
  Q8Case test = NarrowCase(random, Geometry(4, 4, 128, 8, 3, 3, 1, 1), 0, 5, 4);
  test.view.zero_points = nullptr;
  test.view.input_lo = 0;
  for (const auto& [weight, range, segment] : {std::array{14, 31, 1},  // 2 * 126 * 124 = 31248
                                               std::array{14, 15, 2},  // 15120 a step
                                               std::array{7, 15, 4},   // 7560
                                               std::array{-8, 15, 2},  // -8640
                                               std::array{1, 15, 16},  // 1080
                                               std::array{1, 3, 32}}) {
    test.view.input_hi = range;
    Limit(random, test.weights, weight, weight, Ends::kLow);
    EXPECT_EQ(Segment(kRows[0], test.view), segment) << weight << " " << range;
  }
  // A lane adds two products per step: of a weight by four ranges, of two weights by two, or of
  // four weights by one.
  for (const auto& [weight, range, segment] : {std::array{15, 31, 8},  // 3720 a step
                                               std::array{-8, 15, 32}}) {
    test.view.input_hi = range;
    Limit(random, test.weights, weight, weight, Ends::kLow);
    EXPECT_EQ(Segment(kStridedRows[0], test.view), segment) << weight << " " << range;
  }
}

TEST(ConvWinograd, RefusesWhatDoesNotFit) {
  std::mt19937 random(44);
  const auto supports = [](const Q8Case& test, ConvGeometry g) {
    const bool all = Row(kRows[0]).supports(test.view, g);
    EXPECT_EQ(all, Row(kRows[1]).supports(test.view, g));
    return all;
  };
  const ConvGeometry good = Geometry(6, 6, 32, 8, 3, 3, 1, 1);
  Q8Case test = NarrowCase(random, good, 1, 4, 4);
  test.view.zero_points = nullptr;
  ASSERT_TRUE(supports(test, good));
  ConvGeometry g = good;
  g.stride_h = 2;
  EXPECT_FALSE(supports(test, g));
  g = good;
  g.dilation_w = 2;
  EXPECT_FALSE(supports(test, g));
  g = good;
  g.kernel_w = 1;
  EXPECT_FALSE(supports(test, g));
  g = good;
  g.groups = 2;
  EXPECT_FALSE(supports(test, g));
  g = good;
  g.in_c = 24;
  EXPECT_FALSE(supports(test, g));
  // Codes and weights that exceed a byte after the transform.
  test.view.input_lo = 0;
  test.view.input_hi = 32;
  EXPECT_FALSE(supports(test, good));
  test.view.input_hi = 31;
  EXPECT_TRUE(supports(test, good));
  Limit(random, test.weights, 0, 14, Ends::kBoth);
  EXPECT_TRUE(supports(test, good));
  Limit(random, test.weights, 0, 15, Ends::kBoth);
  EXPECT_FALSE(supports(test, good));
  Limit(random, test.weights, -8, 8, Ends::kBoth);
  EXPECT_FALSE(supports(test, good));
  // With a stride of 2 the transform multiplies weights by at most four, so that four bits suffice.
  g = good;
  g.stride_h = g.stride_w = 2;
  g.out_h = g.out_w = 3;
  EXPECT_FALSE(supports(test, g));
  for (const char* name : kStridedRows) {
    const ConvQ8Kernel& strided = Row(name);
    Limit(random, test.weights, 0, 15, Ends::kBoth);
    EXPECT_TRUE(strided.supports(test.view, g));
    EXPECT_FALSE(strided.supports(test.view, good));
    Limit(random, test.weights, -8, 8, Ends::kBoth);
    EXPECT_FALSE(strided.supports(test.view, g));
  }
  // Two bits: up to five codes, and weights with magnitudes up to 2.
  const ConvQ8Kernel& two = Row(k4x3);
  Limit(random, test.weights, -2, 1, Ends::kBoth);
  test.view.input_hi = 4;
  EXPECT_TRUE(two.supports(test.view, good));
  test.view.input_hi = 5;
  EXPECT_FALSE(two.supports(test.view, good));
  test.view.input_hi = 3;
  Limit(random, test.weights, -2, 2, Ends::kBoth);
  EXPECT_FALSE(two.supports(test.view, good));
  Limit(random, test.weights, -3, 0, Ends::kBoth);
  EXPECT_FALSE(two.supports(test.view, good));
  Limit(random, test.weights, -2, 1, Ends::kBoth);
  const std::vector<int32_t> large(8, INT32_MAX / 16);
  test.view.bias = large.data();
  EXPECT_FALSE(two.supports(test.view, good));
  test.view.bias = nullptr;
  Limit(random, test.weights, -8, 8, Ends::kBoth);
  test.view.input_hi = 31;
  // Eight bits: any codes and weights, except for zero points that need more bits.
  const ConvQ8Kernel& pairs = Row("conv_q8_winograd_pairs");
  EXPECT_TRUE(pairs.supports(test.view, good));
  g = good;
  g.in_c = 12;
  EXPECT_FALSE(pairs.supports(test.view, g));
  g.in_c = 2000;  // four times the accumulator of an output
  EXPECT_FALSE(pairs.supports(test.view, g));
  const std::vector<int32_t> zero_points(8, -120);
  test.view.zero_points = zero_points.data();
  Limit(random, test.weights, 0, 8, Ends::kBoth);
  EXPECT_FALSE(pairs.supports(test.view, good));
  test.view.zero_points = nullptr;
  // Four times the bias does not fit int32.
  Limit(random, test.weights, -8, 7, Ends::kNone);
  const std::vector<int32_t> bias(8, -(1 << 29));
  test.view.bias = bias.data();
  EXPECT_FALSE(supports(test, good));
  EXPECT_FALSE(pairs.supports(test.view, good));
}

}  // namespace
}  // namespace requant
