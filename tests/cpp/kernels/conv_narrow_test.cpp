// Rows for operands of fewer bits: every pair of widths, and sums at the limit of int16.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "kernels/conv/blocking.h"
#include "kernels/conv/pack.h"
#include "kernels/conv_testing.h"
#include "numeric/requantize_prepare.h"

namespace requant {
namespace {

using namespace window_testing;

TEST(ConvNarrow, EveryPairOfWidthsMatchesTheDefinition) {
  std::mt19937 random(31);
  const ConvQ8Kernel rows[] = {Row("conv_q8_narrow_x"), Row("conv_q8_narrow_w")};
  int variant = 0, runs[2] = {0, 0};
  std::vector<ConvGeometry> geometries = Geometries();
  for (int i = 0; i < 12; ++i) {
    const auto of = [&random](uint32_t n) { return static_cast<int32_t>(random() % n); };
    geometries.push_back(Geometry(5 + of(5), 5 + of(7), 1 + of(130), 1 + of(130), 1 + of(3),
                                  1 + of(3), 1 + of(2), of(2), 1 + of(2)));
  }
  for (const ConvGeometry& geometry : geometries) {
    for (const Widths widths : {Widths{4, 4},
                                {8, 4},
                                {4, 8},
                                {4, 2},
                                {6, 2},
                                {8, 2},
                                {1, 1},
                                {5, 8},
                                {8, 3},
                                {7, 5},
                                {6, 6},
                                {2, 4}}) {
      ++variant;
      // All combinations of shapes and widths would take too long: large shapes use some of the
      // widths.
      if (WeightCount(geometry) * ConvRows(geometry) > 200000 && (variant / 3) % 4 != 0) continue;
      const Q8Case test = NarrowCase(random, geometry, variant, widths.inputs, widths.weights);
      const ConvGeometry& g = test.g;
      const int32_t pixels = ConvRows(g);
      const std::vector<int32_t> expected = Definition(test);
      for (int row = 0; row < 2; ++row) {
        if (!rows[row].supports(test.view, g)) continue;
        ++runs[row];
        std::vector<int32_t> got(expected.size(), 0x5A5A5A5A);
        test.Run(rows[row], ConvQ8Output::kInt32, {}, Cuts(random, pixels), got.data());
        ASSERT_EQ(got, expected) << rows[row].name << " " << Describe(g) << " inputs "
                                 << widths.inputs << " weights " << widths.weights << " bits, "
                                 << variant;
      }
      EXPECT_TRUE(widths.inputs > 5 || rows[0].supports(test.view, g)) << variant;
      EXPECT_TRUE(widths.weights > 4 || rows[1].supports(test.view, g)) << variant;
    }
  }
  EXPECT_GT(runs[0], 300);
  EXPECT_GT(runs[1], 300);
}

TEST(ConvNarrow, RequantizedLikeTheReference) {
  std::mt19937 random(32);
  int variant = 0;
  for (const ConvGeometry& geometry : Geometries()) {
    ++variant;
    const Q8Case test = NarrowCase(random, geometry, variant, variant % 2 == 0 ? 4 : 8, 4);
    const ConvGeometry& g = test.g;
    const std::vector<int64_t> bounds(static_cast<size_t>(g.out_c), 1 << 24);
    const std::vector<double> multipliers(bounds.size(), 0.003);
    const PreparedRequantize prepared =
        PrepareRequantize(RequantizeMode::kUpward, multipliers, bounds, 7, 0, 15);
    const int32_t pixels = ConvRows(g);
    std::vector<uint8_t> expected(Elements(pixels, g.output_stride, g.out_c), 0xA5);
    std::vector<uint8_t> got = expected;
    test.Run(ConvQ8Kernels()[0], ConvQ8Output::kUint8, prepared.Params(), {0, pixels},
             expected.data());
    const ConvQ8Kernel& row = Row(
        test.view.input_hi - test.view.input_lo > 127 ? "conv_q8_narrow_w" : "conv_q8_narrow_x");
    test.Run(row, ConvQ8Output::kUint8, prepared.Params(), Cuts(random, pixels), got.data());
    ASSERT_EQ(got, expected) << row.name << " " << Describe(g);
  }
}

/// The number of steps that the first block adds up in int16.
int32_t Segment(const ConvQ8Kernel& row, const ConvQ8Weights& weights) {
  std::vector<uint8_t> packed(row.packed_size(weights));
  row.pack_weights(weights, packed.data());
  int32_t segment = 0;
  std::memcpy(&segment, packed.data() + sizeof(conv::NarrowHeader) + conv::kNarrowSegment, 4);
  return segment;
}

/// The variants from 480 on have CodeForm::kFillsInt16.
constexpr int kUsualVariants = 480, kVariants = 640;

/// The codes that a tile makes of its accumulators in one variant.
struct OutputCodes {
  bool is_signed, wide;
  bool fill;  ///< sixteen codes around the zero point fill int16
  int32_t count, lo;
};

OutputCodes MakeOutputCodes(std::mt19937& random, int variant) {
  OutputCodes codes;
  codes.is_signed = variant % 5 == 1;
  codes.wide = variant % 8 == 2 && variant < kUsualVariants;
  codes.fill = variant >= kUsualVariants;
  codes.count = codes.wide ? 256 : codes.fill ? 16 : 2 << static_cast<int32_t>(random() % 4);
  codes.lo = codes.is_signed ? -codes.count / 2 : variant % 7 == 0 && !codes.wide ? 100 : 0;
  return codes;
}

std::vector<int64_t> BoundsOf(const Q8Case& test) {
  std::vector<int64_t> bounds(static_cast<size_t>(test.g.out_c));
  ConvQ8AccumulatorBounds(test.view,
                          std::max(std::abs(test.view.input_lo - test.input_zero_point),
                                   std::abs(test.view.input_hi - test.input_zero_point)),
                          bounds.data());
  return bounds;
}

PreparedRequantize MakeRequantize(std::mt19937& random, const std::vector<int64_t>& bounds,
                                  const OutputCodes& codes) {
  const auto of = [&random](uint32_t n) { return static_cast<int32_t>(random() % n); };
  std::vector<double> multipliers;
  for (const int64_t bound : bounds) {
    // The codes span a half to a thirtieth of the accumulators' range.
    const double multiplier = codes.count * (1.0 + of(30)) / (static_cast<double>(bound) + 1);
    const double steps = std::clamp(std::round(multiplier * kSimpleUnits), 1.0, 32768.0);
    multipliers.push_back(codes.wide ? steps / kSimpleUnits : multiplier);
  }
  const auto count = static_cast<uint32_t>(codes.count);
  const int32_t fewer = codes.fill ? 0 : of(count / 5 + 1);
  const int32_t zero_point = codes.lo + (codes.fill ? 7 + of(2) : of(count));
  return PrepareRequantize(RequantizeMode::kUpward, multipliers, bounds, zero_point, codes.lo,
                           codes.lo + codes.count - 1 - fewer);
}

/// Adds a residual to the convolution, whose bytes are returned, and the addition. Counts the
/// additions that have a form in 16 bits.
std::vector<uint8_t> AddResidual(std::mt19937& random, int variant, const OutputCodes& codes,
                                 ConvQ8Params& p, int32_t& sums) {
  const auto of = [&random](uint32_t n) { return static_cast<int32_t>(random() % n); };
  QAddParams& add = p.addition;
  add.a_step = add.b_step = 1;
  p.residual_first = of(2);
  const bool other_signed = of(2) != 0;
  // Operands of all codes have another form if few bits hold the factors; it saturates.
  const bool simple = variant % 8 == 1;
  const int32_t other_count = simple ? 256 : 16;
  const int32_t other_lo = simple ? (other_signed ? -128 : 0) : other_signed ? -8 : of(3) * 120;
  p.residual_stride = p.geometry.out_c + of(4);
  std::vector<uint8_t> residual(static_cast<size_t>(ConvRows(p.geometry)) * p.residual_stride + 16);
  Limit(random, residual, other_lo, other_lo + other_count - 1, Ends::kNone);
  p.residual = residual.data();
  const bool first = p.residual_first != 0;
  const auto any_own = [&] { return codes.lo + of(static_cast<uint32_t>(codes.count)); };
  add.a_signed = first ? other_signed : codes.is_signed;
  add.b_signed = first ? codes.is_signed : other_signed;
  const int32_t other_zero = other_lo + (simple ? 255 * of(2) : of(16));
  add.a_zero = first ? other_zero : any_own();
  add.b_zero = first ? any_own() : other_zero;
  add.out_signed = codes.is_signed;
  add.lo = codes.is_signed ? -128 : 0;
  add.hi = add.lo + (variant % 3 == 0 ? 15 : 255);
  add.out_zero = add.lo + of(static_cast<uint32_t>(add.hi - add.lo + 1));
  if (simple) {
    add.out_zero = add.lo + 128;
    for (uint8_t& code : residual) code = of(2) ? static_cast<uint8_t>(other_lo + 255) : code;
  }
  const QAddMultipliers m = simple
                                ? MakeQAddMultipliers((121 + of(7)) / 128.0, (121 + of(7)) / 128.0)
                                : MakeQAddMultipliers(0.3 + of(100) / 70.0, 0.3 + of(100) / 70.0);
  add.a_multiplier = m.a;
  add.b_multiplier = m.b;
  add.shift = m.shift;
  const QAddRange own = {p.requantize.lo, p.requantize.hi};
  const QAddRange other = {other_lo, other_lo + other_count - 1};
  const auto less = [](QAddRange range, int32_t zero) {
    return QAddRange{range.lo - zero, range.hi - zero};
  };
  add.narrow = MakeQAddNarrow(m, less(first ? other : own, add.a_zero),
                              less(first ? own : other, add.b_zero), add.out_zero, add.lo, add.hi);
  sums += add.narrow.shift != 0 ? 1 : 0;
  if (simple) add.narrow = MakeQAddSimple(m, add.out_zero);
  EXPECT_TRUE(!simple || add.narrow.shift != 0);
  return residual;
}

/// The second half of every 64 variants has codes of 8 bits.
bool HasWholeBytes(int variant) { return variant % 64 >= 32; }

Q8Case MakeTileCase(std::mt19937& random, int variant) {
  const auto of = [&random](uint32_t n) { return static_cast<int32_t>(random() % n); };
  const bool whole_bytes = HasWholeBytes(variant);
  const int32_t size = variant % 3 == 0 ? 3 : 1, groups = variant % 10 == 0 ? 2 : 1;
  const int32_t most_in = variant % 32 == 6 ? 1300 : variant % 2 == 0 || whole_bytes ? 130 : 12;
  const int32_t in_c = (1 + of(static_cast<uint32_t>(most_in))) * groups;
  const int32_t most_blocks = variant % 16 == 4 ? 40 : 6;
  const int32_t out_c =
      variant % 4 == 3 ? 1 + of(40) : (1 + of(static_cast<uint32_t>(most_blocks))) * 8;
  const ConvGeometry geometry = Geometry(1 + of(5), 1 + of(14), in_c, out_c * groups, size, size,
                                         1 + of(2), size / 2, 1, groups);
  return NarrowCase(random, geometry, variant, 1 + of(4), whole_bytes ? 8 : 1 + of(4));
}

/// Runs the row with weights packed for it, and returns all outputs.
std::vector<uint8_t> RunRow(const ConvQ8Kernel& row, const Q8Case& test, ConvQ8Params p,
                            const std::vector<int32_t>& cuts) {
  std::vector<uint8_t> packed(row.packed_size(test.view));
  row.pack_weights(test.view, packed.data());
  std::vector<uint8_t> output(Elements(ConvRows(test.g), test.g.output_stride, test.g.out_c), 0xA5);
  p.weights = packed.data();
  p.output = output.data();
  RunRanges(row, p, cuts);
  return output;
}

/// Whether the row widens products before the end of a sum.
bool IsSegmented(const ConvQ8Kernel& row, const Q8Case& test) {
  const ConvGeometry& g = test.g;
  return g.out_c / g.groups % 8 == 0 && row.supports(test.view, g) &&
         Segment(row, test.view) * conv::kDot7Group < g.in_c / g.groups * g.kernel_h * g.kernel_w;
}

/// Codes of a few bits, with forms in 16 bits and in float32, with and without a residual of few
/// codes, unsigned or signed; and codes of eight bits with simple multipliers. Kernels are products
/// whose sums fit int16, products by weights of eight bits whose sums do not, and lookups.
TEST(ConvNarrow, CodesMadeInTheTileAreThoseOfTheReference) {
  std::mt19937 random(35);
  const ConvQ8Kernel rows[] = {Row("conv_q8_narrow_x"), Row("conv_q8_lookup")};
  int runs[2] = {0, 0}, segmented[2] = {0, 0};
  NarrowChannels found;
  int32_t channels = 0, sums = 0, filled = 0;
  for (int variant = 1; variant < kVariants; ++variant) {
    const Q8Case test = MakeTileCase(random, variant);
    const ConvGeometry& g = test.g;
    const std::vector<int64_t> bounds = BoundsOf(test);
    const OutputCodes codes = MakeOutputCodes(random, variant);
    PreparedRequantize prepared = MakeRequantize(random, bounds, codes);
    if (!codes.wide) {
      const NarrowChannels more = AddNarrowRequantize(prepared, bounds);
      const bool counts = !HasWholeBytes(variant) && !codes.fill;
      found.in_16_bits += counts ? more.in_16_bits : 0;
      found.in_float += counts ? more.in_float : 0;
      channels += counts ? g.out_c : 0;
    }
    EXPECT_TRUE(!codes.wide || prepared.Params().float_scale != nullptr);
    ConvQ8Params p;
    p.geometry = g;
    p.input = test.input.data();
    p.input_signed = test.input_signed;
    p.input_zero_point = test.input_zero_point;
    p.output_type = codes.is_signed ? ConvQ8Output::kInt8 : ConvQ8Output::kUint8;
    p.requantize = prepared.Params();
    std::vector<uint8_t> residual;
    if (variant % 2 == 1) residual = AddResidual(random, variant, codes, p, sums);
    if (codes.fill) {
      EXPECT_EQ(p.requantize.narrow.shift, kNarrowFullShift);
      filled += p.addition.narrow.shift != 0 ? 1 : 0;
    }
    const int32_t pixels = ConvRows(g);
    const std::vector<uint8_t> expected = RunRow(ConvQ8Kernels()[0], test, p, {0, pixels});
    if (IsSegmented(rows[0], test)) {
      ++segmented[p.residual != nullptr && p.addition.narrow.shift != 0 ? 1 : 0];
    }
    for (int row = 0; row < 2; ++row) {
      if (!rows[row].supports(test.view, g)) continue;
      ++runs[row];
      ASSERT_EQ(RunRow(rows[row], test, p, Cuts(random, pixels)), expected)
          << rows[row].name << " " << Describe(g) << ", " << variant;
    }
  }
  EXPECT_GT(runs[0], 200);
  EXPECT_GT(runs[1], 100);
  EXPECT_GT(segmented[0], 20);
  EXPECT_GT(segmented[1], 20);
  // Every channel has a form in float32, and almost every channel of few bits one in 16 bits. With
  // the slope of the multiplier alone, 0.5 % and 1.6 % of the channels would have none.
  EXPECT_EQ(found.in_float, channels);
  EXPECT_GT(found.in_16_bits, channels * 0.99);
  EXPECT_LT(found.in_16_bits, channels);
  EXPECT_GT(sums, 20);
  EXPECT_GT(filled, 20);
}

TEST(ConvNarrow, SegmentsAreAsLongAsTheOperandsAllow) {
  std::mt19937 random(33);
  const ConvQ8Kernel& inputs = Row("conv_q8_narrow_x");
  const ConvQ8Kernel& weights = Row("conv_q8_narrow_w");
  const int32_t depth = 4096;
  // All weights are at one end and all inputs at the other; a lane adds two products per step.
  const auto longest = [](int32_t largest) { return 32768 / (2 * largest); };
  for (const Widths widths : {Widths{4, 4}, {4, 8}, {4, 2}, {6, 2}, {8, 4}, {8, 2}}) {
    Q8Case test =
        NarrowCase(random, Geometry(1, 9, depth, 8, 1, 1, 1, 0), 0, widths.inputs, widths.weights);
    test.view.input_lo = 0;
    test.view.input_hi = (1 << widths.inputs) - 1;
    test.input_zero_point = 0;
    const int32_t half = 1 << (widths.weights - 1);
    Limit(random, test.input, test.view.input_hi, test.view.input_hi, Ends::kHigh);
    Limit(random, test.weights, -half, half - 1, Ends::kLow);
    const bool wide = widths.inputs == 8;
    if (wide) test.weights[0] = static_cast<uint8_t>(half - 1);
    const ConvQ8Kernel& row = wide ? weights : inputs;
    ASSERT_TRUE(row.supports(test.view, test.g));
    const int32_t most = longest((wide ? 128 * (2 * half - 1) : half * test.view.input_hi));
    const int32_t segment = Segment(row, test.view);
    if (!wide) {
      EXPECT_LE(segment, most);
      EXPECT_GE(segment, most / 2) << widths.inputs << " " << widths.weights;
    }
    std::vector<int32_t> got(9 * 8);
    test.Run(row, ConvQ8Output::kInt32, {}, {0, 9}, got.data());
    for (int32_t at = 0; at < 72; ++at) ASSERT_EQ(got[at], test.Accumulator(at / 8, at % 8));
  }
  // Weights whose sum is 0 need no widening before the end.
  Q8Case test = NarrowCase(random, Geometry(1, 9, 256, 8, 1, 1, 1, 0), 0, 4, 4);
  test.view.input_lo = 0;
  test.view.input_hi = 15;
  Limit(random, test.weights, -1, 1, Ends::kNone);
  EXPECT_EQ(Segment(inputs, test.view), 64);
}

TEST(ConvNarrow, RefusesWhatDoesNotFit) {
  std::mt19937 random(34);
  const ConvQ8Kernel& inputs = Row("conv_q8_narrow_x");
  const ConvQ8Kernel& weights = Row("conv_q8_narrow_w");
  Q8Case test = NarrowCase(random, Geometry(1, 4, 8, 8, 1, 1, 1, 0), 1, 4, 4);
  test.view.zero_points = nullptr;
  Limit(random, test.weights, -8, 7, Ends::kBoth);
  test.weights[0] = static_cast<uint8_t>(-8);
  test.weights[1] = 7;
  EXPECT_TRUE(inputs.supports(test.view, test.g));
  EXPECT_TRUE(weights.supports(test.view, test.g));
  test.view.input_lo = -128;  // the defaults: the type is not known
  test.view.input_hi = 255;
  EXPECT_FALSE(inputs.supports(test.view, test.g));
  EXPECT_FALSE(weights.supports(test.view, test.g));
  test.view.input_lo = 0;
  EXPECT_FALSE(inputs.supports(test.view, test.g));
  EXPECT_TRUE(weights.supports(test.view, test.g));
  EXPECT_TRUE(weights.is_preferred(test.view, test.g));
  EXPECT_FALSE(weights.is_preferred(test.view, Geometry(9, 9, 3, 8, 3, 3, 2, 1)));  // a first layer
  test.weights[0] = static_cast<uint8_t>(-9);
  EXPECT_FALSE(weights.supports(test.view, test.g));
}

}  // namespace
}  // namespace requant
