// Convolutions of few-bit codes: every form against the scalar row.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "kernels/bitserial/pack.h"
#include "kernels/conv/table.h"
#include "kernels/window_testing.h"
#include "numeric/requantize_prepare.h"

namespace requant {
namespace {

using namespace window_testing;

const ConvQ8Kernel& Row(const std::string& name) {
  for (const ConvQ8Kernel& kernel : ConvQ8Kernels()) {
    if (name == kernel.name) return kernel;
  }
  ADD_FAILURE() << "no row " << name;
  return ConvQ8Kernels()[0];
}

std::vector<ConvGeometry> Geometries(std::mt19937& random) {
  std::vector<ConvGeometry> all;
  for (int32_t c = 1; c <= 130; c += c < 20 ? 1 : 11) {
    all.push_back(Geometry(3, 5, c, 131 - c, 1, 1, 1, 0));
    all.push_back(Geometry(7, 4 + c % 5, c, c % 37 + 1, 3, 3, 1, 1));
  }
  all.push_back(Geometry(1, 1, 67, 35, 1, 1, 1, 0));
  all.push_back(Geometry(1, 171, 16, 24, 1, 1, 1, 0));
  all.push_back(Geometry(9, 7, 3, 8, 3, 3, 2, 1));
  all.push_back(Geometry(11, 13, 5, 9, 5, 3, 3, 2));
  all.push_back(Geometry(9, 9, 20, 17, 3, 3, 1, 2, 2));
  all.push_back(Geometry(10, 9, 6, 7, 2, 4, 2, 3, 3));
  all.push_back(Geometry(9, 9, 33, 18, 3, 3, 2, 3, 4));     // dilation over stride
  all.push_back(Geometry(7, 7, 12, 18, 3, 3, 1, 1, 1, 3));  // groups
  all.push_back(Geometry(6, 7, 10, 30, 3, 3, 2, 1, 1, 10));
  all.push_back(Geometry(7, 6, 40, 8, 1, 1, 2, 0));
  all.push_back(Geometry(5, 5, 7, 9, 1, 1, 1, 1));
  all.push_back(Geometry(2, 2, 3, 4, 5, 5, 1, 2));
  all.push_back(Geometry(1, 3, 2, 3, 1, 3, 1, 5));
  all.push_back(Geometry(4, 5, 9, 10, 3, 3, 1, 1, 1, 1, 3));
  all.push_back(Geometry(21, 23, 8, 11, 1, 1, 1, 0, 1, 1, 2));
  all.push_back(Geometry(24, 21, 19, 8, 3, 3, 1, 1));
  all.push_back(Geometry(30, 40, 48, 17, 3, 3, 1, 1));  // several bands
  all.push_back(Geometry(4, 4, 460, 9, 3, 3, 1, 1));    // several segments
  all.push_back(Geometry(5, 31, 1300, 20, 1, 1, 1, 0));
  all.push_back(Geometry(17, 17, 2, 3, 15, 15, 1, 7));  // 225 taps
  all.push_back(Geometry(12, 11, 17, 3, 9, 9, 1, 4));   // 81 taps, which two planes may have
  for (int i = 0; i < 60; ++i) {
    const auto pick = [&](int32_t lo, int32_t hi) {
      return lo + static_cast<int32_t>(random() % static_cast<uint32_t>(hi - lo + 1));
    };
    const int32_t groups = pick(0, 3) == 0 ? pick(2, 4) : 1, dilation = pick(1, 2);
    const int32_t kh = pick(1, 4), kw = pick(1, 4), least = (std::max(kh, kw) - 1) * dilation + 1;
    all.push_back(Geometry(least + pick(0, 9), least + pick(0, 20), groups * pick(1, 130 / groups),
                           groups * pick(1, 70 / groups), kh, kw, pick(1, 3), pick(0, 3), dilation,
                           groups, pick(1, 2)));
  }
  return all;
}

/// A range of codes, and the values of the weights.
struct Codes {
  int32_t lo, hi, zero_point;
  std::vector<int32_t> weights;
  bool input_signed() const { return lo < 0; }
};

struct Case {
  ConvGeometry g;
  Codes codes;
  std::vector<uint8_t> input;
  std::vector<int8_t> weights;
  std::vector<int32_t> bias;
  ConvQ8Weights view;

  /// `extreme`: 1 for the lowest codes, 2 for the highest ones, else random.
  Case(std::mt19937& random, const ConvGeometry& geometry, const Codes& which, int extreme)
      : g(geometry), codes(which) {
    g.input_stride += extreme % 3;
    g.output_stride += extreme % 2 * 5;
    input.resize(Elements(g.batch * g.in_h * g.in_w, g.input_stride, g.in_c));
    for (uint8_t& code : input) {
      const int32_t value =
          extreme == 1   ? codes.lo
          : extreme == 2 ? codes.hi
                         : codes.lo + static_cast<int32_t>(random() % (codes.hi - codes.lo + 1));
      code = static_cast<uint8_t>(value);
    }
    weights.resize(static_cast<size_t>(g.out_c) * (g.in_c / g.groups) * g.kernel_h * g.kernel_w);
    for (int8_t& w : weights) {
      w = static_cast<int8_t>(extreme == 1   ? codes.weights.front()
                              : extreme == 2 ? codes.weights.back()
                                             : codes.weights[random() % codes.weights.size()]);
    }
    for (int32_t o = 0; o < g.out_c; ++o) {
      bias.push_back(static_cast<int32_t>(random() % 2001) - 1000);
    }
    view.layout = OihwLayout(g.out_c, g.in_c / g.groups, g.kernel_h, g.kernel_w, g.groups);
    view.data = weights.data();
    view.bias = bias.data();
    view.input_lo = codes.lo;
    view.input_hi = codes.hi;
  }

  void Run(const ConvQ8Kernel& kernel, ConvQ8Output type, const RequantizeParams& requantize,
           const std::vector<int32_t>& cuts, void* output) const {
    std::vector<uint8_t> packed(kernel.packed_size(view));
    kernel.pack_weights(view, packed.data());
    ConvQ8Params p;
    p.geometry = g;
    p.input = input.data();
    p.input_signed = codes.input_signed();
    p.input_zero_point = codes.zero_point;
    p.weights = packed.data();
    p.output = output;
    p.output_type = type;
    p.requantize = requantize;
    RunRanges(kernel, p, cuts);
  }
};

std::string Describe(const ConvGeometry& g, const Codes& codes) {
  return std::to_string(g.in_h) + "x" + std::to_string(g.in_w) + "x" + std::to_string(g.in_c) +
         " -> " + std::to_string(g.out_c) + " kernel " + std::to_string(g.kernel_h) + "x" +
         std::to_string(g.kernel_w) + " stride " + std::to_string(g.stride_h) + " pad " +
         std::to_string(g.pad_top) + " dilation " + std::to_string(g.dilation_h) + " groups " +
         std::to_string(g.groups) + " codes " + std::to_string(codes.lo) + ".." +
         std::to_string(codes.hi) + " weights from " + std::to_string(codes.weights.front());
}

const std::vector<Codes>& LookupCodes() {
  static const std::vector<Codes> all = {
      {0, 1, 0, {-1, 1}},          {-1, 1, 0, {-1, 1}},           {0, 3, 0, {-1, 0, 1}},
      {0, 3, 2, {-2, -1, 0, 1}},   {0, 15, 0, {-2, -1, 0, 1}},    {-8, 7, -8, {0, 1}},
      {0, 7, 3, {-127, 127}},      {100, 103, 101, {-3, 0, 3}},   {5, 5, 5, {7}},
      {-128, -113, -120, {-1, 1}}, {240, 255, 255, {0, 1, 2, 3}},
  };
  return all;
}

TEST(ConvLookup, AccumulatorsMatchTheScalarRow) {
  std::mt19937 random(31);
  const ConvQ8Kernel &scalar = Row("conv_q8_scalar"), &lookup = Row("conv_q8_lookup");
  int extreme = 0;
  for (const ConvGeometry& geometry : Geometries(random)) {
    for (const Codes& codes : LookupCodes()) {
      const Case test(random, geometry, codes, extreme++ % 5);
      if (!bitserial::LookupSupports(test.view, test.g)) {
        ASSERT_GT(test.g.kernel_h * test.g.kernel_w, 85) << Describe(geometry, codes);
        continue;
      }
      const int32_t rows = ConvRows(test.g);
      const size_t size = Elements(rows, test.g.output_stride, test.g.out_c);
      std::vector<int32_t> expected(size, 0x5A5A5A5A), got = expected;
      test.Run(scalar, ConvQ8Output::kInt32, {}, {0, rows}, expected.data());
      test.Run(lookup, ConvQ8Output::kInt32, {}, Cuts(random, rows), got.data());
      ASSERT_EQ(got, expected) << Describe(geometry, codes) << " extreme " << extreme;
    }
  }
}

TEST(ConvLookup, LevelsThatAChannelCannotHaveAreNoneOfItsCodes) {
  // Weights -128, 0 and 128 with zero points 0 and -128: as bytes, the fourth level would equal the
  // second.
  std::mt19937 random(12);
  Case test(random, Geometry(1, 5, 20, 16, 1, 1, 1, 0), {0, 3, 0, {-128, 0}}, 0);
  std::vector<int32_t> zero_points;
  for (int32_t o = 0; o < 16; ++o) zero_points.push_back(o % 2 == 0 ? 0 : -128);
  test.view.zero_points = zero_points.data();
  const ConvQ8Kernel& lookup = Row("conv_q8_lookup");
  ASSERT_TRUE(lookup.supports(test.view, test.g));
  const int32_t rows = ConvRows(test.g);
  std::vector<int32_t> expected(Elements(rows, test.g.output_stride, 16)), got(expected.size());
  test.Run(ConvQ8Kernels()[0], ConvQ8Output::kInt32, {}, {0, rows}, expected.data());
  test.Run(lookup, ConvQ8Output::kInt32, {}, {0, rows}, got.data());
  EXPECT_EQ(got, expected);
}

TEST(ConvLookup, RequantizedOutputsMatchTheScalarRow) {
  std::mt19937 random(32);
  const ConvQ8Kernel &scalar = Row("conv_q8_scalar"), &lookup = Row("conv_q8_lookup");
  int variant = 0;
  for (const ConvGeometry& geometry : Geometries(random)) {
    const Codes& codes = LookupCodes()[static_cast<size_t>(variant++) % LookupCodes().size()];
    const Case test(random, geometry, codes, 0);
    std::vector<int64_t> bounds(test.g.out_c);
    ConvQ8AccumulatorBounds(test.view, 255, bounds.data());
    const std::vector<double> multipliers(static_cast<size_t>(test.g.out_c), 0.07);
    const PreparedRequantize prepared =
        PrepareRequantize(variant % 2 ? RequantizeMode::kUpward : RequantizeMode::kFloat,
                          multipliers, bounds, 3, variant % 3 ? 0 : 9, variant % 4 ? 255 : 15);
    const int32_t rows = ConvRows(test.g);
    std::vector<uint8_t> expected(Elements(rows, test.g.output_stride, test.g.out_c), 0xA5);
    std::vector<uint8_t> got = expected;
    test.Run(scalar, ConvQ8Output::kUint8, prepared.Params(), {0, rows}, expected.data());
    test.Run(lookup, ConvQ8Output::kUint8, prepared.Params(), Cuts(random, rows), got.data());
    ASSERT_EQ(got, expected) << Describe(geometry, codes);
  }
}

/// Lookup sums that fit bytes in some windows or all, and sums that do not; thresholds within their
/// range and at both ends; weights that all have a form in bytes, and others.
TEST(ConvLookup, OutputsOfTwoCodesMatchTheScalarRow) {
  std::mt19937 random(35);
  const auto of = [&random](int32_t n) {
    return static_cast<int32_t>(random() % static_cast<uint32_t>(n));
  };
  const ConvQ8Kernel &scalar = Row("conv_q8_scalar"), &lookup = Row("conv_q8_lookup");
  const std::vector<int32_t> weights[] = {{-1, 1},  {0, 1},  {-1, 0}, {-3, 3},
                                          {0, 100}, {-1, 2}, {7}};
  int32_t seen[2] = {0, 0};
  for (int variant = 0; variant < 1000; ++variant) {
    // Some cases have a single code and any number of channels.
    const bool one = variant % 41 == 40;
    const int32_t range = one ? 0 : 1 + variant % 3, groups = variant % 9 == 8 ? 2 : 1;
    // 254 channels of one bit fill a byte; up to 400 are tried.
    const int32_t in_c = one                ? 1 + of(2000)
                         : variant % 5 == 4 ? 225 + of(200)
                                            : 1 + of(254 / range + 10);
    const int32_t out_c = (1 + of(variant % 4 == 3 ? 34 : 6)) * 8 - (variant % 10 == 9 ? 3 : 0);
    const ConvGeometry geometry =
        Geometry(1 + of(4), 1 + of(variant % 7 == 6 ? 90 : 12), in_c * groups, out_c * groups, 1, 1,
                 1 + of(2), variant % 11 == 10 ? 1 : 0, 1, groups);
    const int32_t lo = variant % 6 == 5 ? -1 : of(3) * 100;
    const Codes codes = {lo, lo + range, lo + of(range + 1), weights[of(variant % 8 < 3 ? 3 : 7)]};
    Case test(random, geometry, codes, variant % 8 < 3 ? variant % 8 : 0);
    // Two channels of three have only the highest or only the lowest weights.
    for (size_t i = 0; i < test.weights.size(); ++i) {
      const size_t channel = i / static_cast<size_t>(in_c) % 3;
      test.weights[i] =
          static_cast<int8_t>(channel == 0   ? codes.weights.front()
                              : channel == 1 ? codes.weights.back()
                                             : codes.weights[random() % codes.weights.size()]);
    }
    // Half of the biases are in the range of the sums; some of the others leave only one code.
    for (int32_t& bias : test.bias) {
      bias = of(2) ? of(2 * in_c + 1) - in_c : of(4) ? bias : of(2) ? 30000 + of(9000) : -30000;
    }
    std::vector<int64_t> bounds(test.g.out_c);
    ConvQ8AccumulatorBounds(test.view, range, bounds.data());
    std::vector<double> multipliers;
    for (size_t i = 0; i < bounds.size(); ++i) {
      multipliers.push_back(1.0 / (1 + of(i % 8 == 7 ? 60000 : in_c)));
    }
    const bool is_signed = of(4) == 0;
    const int32_t lower = is_signed ? -of(127) - 1 : 1 + of(254);
    PreparedRequantize prepared =
        PrepareRequantize(of(2) ? RequantizeMode::kUpward : RequantizeMode::kFloat, multipliers,
                          bounds, lower + of(4) - 1, lower, lower + 1);
    AddNarrowRequantize(prepared, bounds);
    ASSERT_NE(prepared.Params().narrow.last_low, nullptr);
    const int32_t rows = ConvRows(test.g);
    const auto type = is_signed ? ConvQ8Output::kInt8 : ConvQ8Output::kUint8;
    std::vector<uint8_t> expected(Elements(rows, test.g.output_stride, test.g.out_c), 0xA5);
    std::vector<uint8_t> got = expected;
    test.Run(scalar, type, prepared.Params(), {0, rows}, expected.data());
    test.Run(lookup, type, prepared.Params(), Cuts(random, rows), got.data());
    ASSERT_EQ(got, expected) << Describe(geometry, codes) << ", " << variant;
    for (const uint8_t code : got) {
      if (code == static_cast<uint8_t>(lower)) ++seen[0];
      if (code == static_cast<uint8_t>(lower + 1)) ++seen[1];
    }
  }
  // Both codes occur often.
  EXPECT_GT(seen[0], seen[1] / 4);
  EXPECT_GT(seen[1], seen[0] / 4);
}

TEST(ConvLookup, TakesFewCodesAndFourEvenWeights) {
  std::mt19937 random(33);
  const ConvGeometry g = Geometry(5, 5, 32, 32, 3, 3, 1, 1);
  const auto fits = [&](const Codes& codes) {
    return bitserial::LookupSupports(Case(random, g, codes, 0).view, g);
  };
  EXPECT_TRUE(fits({0, 15, 0, {-2, 1}}));
  EXPECT_FALSE(fits({0, 16, 0, {-2, 1}}));
  EXPECT_FALSE(fits({0, 15, 0, {-2, -1, 0, 2}}));
  EXPECT_FALSE(fits({0, 3, 0, {-2, -1, 0, 1, 2}}));
  EXPECT_TRUE(fits({0, 3, 0, {-8, -4, 4}}));
  EXPECT_FALSE(bitserial::LookupSupports(Case(random, g, {0, 1, 0, {0, 1}}, 0).view,
                                         Geometry(30, 30, 1, 1, 17, 17, 1, 0)));
}

TEST(ConvLookup, BitsArePackedAsSuch) {
  std::mt19937 random(34);
  const ConvGeometry g = Geometry(7, 7, 512, 512, 3, 3, 1, 1);
  const ConvQ8Kernel& lookup = Row("conv_q8_lookup");
  // The packed weights also hold a bias and a sum for each channel, 16 bytes for each block, and
  // the header.
  const size_t weights = size_t{512} * 512 * 9, biases = 512 * 8 + 512 / 8 * 16 + 128;
  EXPECT_LE(lookup.packed_size(Case(random, g, {0, 1, 0, {-1, 1}}, 0).view), weights / 8 + biases);
  EXPECT_LE(lookup.packed_size(Case(random, g, {0, 3, 0, {-1, 0, 1}}, 0).view),
            weights / 4 + biases);
}

}  // namespace
}  // namespace requant
