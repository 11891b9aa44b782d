// Convolutions on planes of bits (inputs, residuals and outputs) against the scalar row on bytes:
// lookups, and counting of bits. Some inputs are spread, as -1 and 1 are.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <string_view>

#include "kernels/bitserial/lookup_output.h"
#include "kernels/bitserial/pack.h"
#include "kernels/conv/table.h"
#include "kernels/window_testing.h"
#include "numeric/qadd.h"
#include "numeric/requantize_prepare.h"

namespace requant {
namespace {

using namespace window_testing;

/// A convolution of codes of two values by weights of two values, with outputs of two codes.
class PlanesCase {
 public:
  PlanesCase(std::mt19937& random, int variant) : random_(random) {
    const int32_t size = variant % 3 == 0 ? 3 : 1, groups = variant % 7 == 6 ? 2 : 1;
    const int32_t in_c = 32 * (1 + Of(variant % 8 == 7 ? 20 : 6)) * groups;
    const int32_t out_c = 32 * (1 + Of(variant % 9 == 8 ? 9 : 4)) * groups;
    const int32_t dilation = size == 3 && variant % 12 == 9 ? 2 : 1;
    const int32_t least = (size - 1) * dilation + 1;
    g_ = Geometry(least + Of(6), least + Of(variant % 5 == 4 ? 90 : 12), in_c, out_c, size, size,
                  1 + Of(2), variant % 4 == 3 ? 1 + Of(2) : 0, dilation, groups, 1 + Of(2));
    is_signed_ = variant % 6 == 5;
    lo_ = is_signed_ ? -1 - Of(120) : Of(250);
    spread_ = variant / 2 % 2;
    input_ =
        TwoCodes(static_cast<size_t>(g_.batch * g_.in_h * g_.in_w) * in_c, lo_, variant, spread_);
    const std::vector<int8_t> values[] = {{-1, 1}, {0, 1}, {-1, 0}, {-2, 5}};
    const std::vector<int8_t>& two = values[Of(4)];
    const int32_t depth = in_c / groups * size * size;
    weights_.resize(static_cast<size_t>(out_c) * static_cast<size_t>(depth));
    for (int8_t& w : weights_) w = two[static_cast<size_t>(Of(2))];
    for (int32_t o = 0; o < out_c; ++o) {
      // In some variants the sums do not fit int16: they have no thresholds.
      const int32_t far = variant % 10 == 8 ? 50000 : 20000;
      bias_.push_back(Of(8) == 0 ? far - Of(2 * far) : Of(depth + 1) - depth / 2);
    }
    view_.layout = OihwLayout(out_c, in_c / groups, size, size, groups);
    view_.data = weights_.data();
    view_.bias = bias_.data();
    view_.input_lo = lo_;
    view_.input_hi = lo_ + (1 << spread_);
    std::vector<int64_t> bounds(static_cast<size_t>(out_c));
    ConvQ8AccumulatorBounds(view_, 1 << spread_, bounds.data());
    std::vector<double> multipliers;
    for (int32_t o = 0; o < out_c; ++o) multipliers.push_back(1.0 / (1 + Of(depth)));
    out_lo_ = is_signed_ ? -5 : 7;
    prepared_ = PrepareRequantize(Of(2) ? RequantizeMode::kUpward : RequantizeMode::kFloat,
                                  multipliers, bounds, out_lo_ + Of(3) - 1, out_lo_, out_lo_ + 1);
    AddNarrowRequantize(prepared_, bounds);
    p_.geometry = g_;
    p_.input_signed = is_signed_ ? 1 : 0;
    p_.input_zero_point = lo_ + Of(2 + spread_);
    p_.output_type = is_signed_ ? ConvQ8Output::kInt8 : ConvQ8Output::kUint8;
    p_.requantize = prepared_.Params();
  }

  /// Adds a residual of two codes, so that its sums with the outputs have any two codes.
  void AddResidual(int variant) {
    QAddParams& add = p_.addition;
    add.a_step = add.b_step = 1;
    p_.residual_first = Of(2);
    p_.residual_stride = g_.out_c;
    residual_lo_ = is_signed_ ? -128 + Of(200) : Of(255);
    residual_ = TwoCodes(static_cast<size_t>(ConvRows(g_)) * g_.out_c, residual_lo_, variant / 3);
    p_.residual = residual_.data();
    const bool first = p_.residual_first != 0;
    const int32_t zero = residual_lo_ + Of(2), own_zero = out_lo_ + Of(2);
    add.a_signed = add.b_signed = add.out_signed = is_signed_;
    add.a_zero = first ? zero : own_zero;
    add.b_zero = first ? own_zero : zero;
    add.lo = is_signed_ ? -128 + Of(200) : Of(255);
    add.hi = add.lo + 1;
    add.out_zero = add.lo + Of(2);
    const QAddMultipliers m = MakeQAddMultipliers(0.3 + Of(100) / 70.0, 0.3 + Of(100) / 70.0);
    add.a_multiplier = m.a;
    add.b_multiplier = m.b;
    add.shift = m.shift;
    const QAddRange own = {out_lo_ - own_zero, out_lo_ + 1 - own_zero};
    const QAddRange other = {residual_lo_ - zero, residual_lo_ + 1 - zero};
    add.narrow =
        MakeQAddNarrow(m, first ? other : own, first ? own : other, add.out_zero, add.lo, add.hi);
  }

  /// The output of a row of the table, on bytes.
  std::vector<uint8_t> Bytes(const ConvQ8Kernel& kernel) {
    return Run(kernel, false, false, false);
  }

  /// The output of the row if the given operands are planes of bits.
  std::vector<uint8_t> Run(const ConvQ8Kernel& kernel, bool input, bool residual, bool output) {
    std::vector<uint8_t> packed(kernel.packed_size(view_));
    kernel.pack_weights(view_, packed.data());
    p_.weights = packed.data();
    compares_ = kernel.run == rq_conv_q8_lookup && bitserial::LookupCompares(p_);
    const int32_t pixels = g_.batch * g_.in_h * g_.in_w, rows = ConvRows(g_);
    const std::vector<uint8_t> input_plane =
        PlaneOf(input_, pixels, g_.in_c, g_.in_c, lo_, spread_);
    std::vector<uint8_t> residual_plane;
    ConvQ8Params p = p_;
    p.input = input ? input_plane.data() : input_.data();
    p.input_planes = input ? 1 : 0;
    p.input_spread = input ? spread_ : 0;
    if (residual) {
      residual_plane = PlaneOf(residual_, rows, g_.out_c, g_.out_c, residual_lo_);
      p.residual = residual_plane.data();
      p.residual_planes = 1;
    }
    std::vector<uint8_t> result(static_cast<size_t>(rows) * g_.out_c / (output ? 8 : 1), 0);
    p.output = result.data();
    p.output_planes = output ? 1 : 0;
    RunRanges(kernel, p, Cuts(random_, rows));
    return result;
  }

  std::vector<uint8_t> PlaneOfOutput(const std::vector<uint8_t>& bytes) const {
    const int32_t lo = p_.residual == nullptr ? out_lo_ : p_.addition.lo;
    return PlaneOf(bytes, ConvRows(g_), g_.out_c, g_.out_c, lo);
  }
  bool compares() const { return compares_; }
  const ConvQ8Weights& view() const { return view_; }
  const ConvGeometry& geometry() const { return g_; }

 private:
  int32_t Of(int32_t n) { return static_cast<int32_t>(random_() % static_cast<uint32_t>(n)); }
  std::vector<uint8_t> TwoCodes(size_t size, int32_t lo, int which, int32_t spread = 0) {
    std::vector<uint8_t> codes(size);
    for (uint8_t& code : codes) {
      const int32_t bit = which % 10 == 3 ? 0 : which % 10 == 4 ? 1 : Of(2);
      code = static_cast<uint8_t>(lo + (bit << spread));
    }
    return codes;
  }

  std::mt19937& random_;
  ConvGeometry g_;
  bool is_signed_ = false, compares_ = false;
  int32_t lo_ = 0, spread_ = 0, out_lo_ = 0, residual_lo_ = 0;
  std::vector<uint8_t> input_, residual_;
  std::vector<int8_t> weights_;
  std::vector<int32_t> bias_;
  ConvQ8Weights view_;
  PreparedRequantize prepared_;
  ConvQ8Params p_;
};

TEST(ConvPlanes, LookupsGiveTheBitsOfTheScalarRow) {
  std::mt19937 random(41);
  const auto rows = ConvQ8Kernels();
  const ConvQ8Kernel& lookup = *std::find_if(rows.begin(), rows.end(), [](const auto& row) {
    return std::string_view(row.name) == "conv_q8_lookup";
  });
  int sums = 0, mixed = 0, without = 0;
  int64_t ones = 0, all = 0;
  for (int variant = 0; variant < 100; ++variant) {
    PlanesCase test(random, variant);
    const bool adds = variant % 2 == 1;
    if (adds) test.AddResidual(variant);
    ASSERT_TRUE(lookup.supports(test.view(), test.geometry()));
    const std::vector<uint8_t> expected = test.Bytes(rows[0]);
    ASSERT_EQ(test.Bytes(lookup), expected) << variant;
    const std::vector<uint8_t> plane = test.PlaneOfOutput(expected);
    for (const bool input : {false, true}) {
      ASSERT_EQ(test.Run(lookup, input, false, false), expected) << variant;
      without += test.compares() ? 0 : 1;
      if (adds && !test.compares()) continue;  // the planner does not request this form
      ASSERT_EQ(test.Run(lookup, input, false, true), plane) << variant;
      if (!adds) continue;
      ++sums;
      ASSERT_EQ(test.Run(lookup, input, true, true), plane) << variant;
      ASSERT_EQ(test.Run(lookup, input, true, false), expected) << variant;
    }
    int64_t set = 0;
    for (const uint8_t byte : plane) set += std::popcount(byte);
    ones += set;
    all += static_cast<int64_t>(expected.size());
    mixed += set != 0 && set != static_cast<int64_t>(expected.size()) ? 1 : 0;
  }
  for (int variant = 0; variant < 60; ++variant) {
    PlanesCase test(random, variant);
    const std::vector<uint8_t> expected = test.Bytes(rows[0]);
    const std::vector<uint8_t> plane = test.PlaneOfOutput(expected);
    for (const auto& row : rows) {
      if (row.run != rq_conv_q8_popcount && row.run != rq_conv_q8_carry_save) continue;
      ASSERT_EQ(test.Run(row, false, false, true), plane) << row.name << variant;
      ASSERT_EQ(test.Run(row, true, false, true), plane) << row.name << variant;
      ASSERT_EQ(test.Run(row, true, false, false), expected) << row.name << variant;
    }
  }
  EXPECT_GT(sums, 60);
  EXPECT_GT(mixed, 60);
  EXPECT_GT(without, 5);
  EXPECT_GT(ones, all / 5);
  EXPECT_LT(ones, all * 4 / 5);
}

}  // namespace
}  // namespace requant
