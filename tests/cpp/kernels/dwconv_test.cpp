// Depthwise kernels against the general convolution's scalar row with groups == channels.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>

#include "kernels/conv/table.h"
#include "kernels/dot8_forms.h"
#include "kernels/dwconv/can_compare.h"
#include "kernels/dwconv/dot8.h"
#include "kernels/dwconv/pack.h"
#include "kernels/dwconv/table.h"
#include "kernels/window_testing.h"
#include "numeric/requantize_prepare.h"

namespace requant {
namespace {

using namespace window_testing;

ConvGeometry Depthwise(int32_t h, int32_t w, int32_t c, int32_t kernel_h, int32_t kernel_w,
                       int32_t stride, int32_t pad, int32_t dilation = 1, int32_t batch = 1) {
  return Geometry(h, w, c, c, kernel_h, kernel_w, stride, pad, dilation, c, batch);
}

std::vector<ConvGeometry> Geometries() {
  std::vector<ConvGeometry> all;
  for (int32_t c = 1; c <= 67; c += c < 20 ? 1 : 7) {
    all.push_back(Depthwise(6, 9, c, 3, 3, 1, 1));
    all.push_back(Depthwise(7, 8, c, 3, 3, 2, 1));
  }
  all.push_back(Depthwise(5, 13, 20, 3, 3, 1, 0));  // no padding
  all.push_back(Depthwise(9, 12, 12, 5, 5, 1, 2));  // generic sizes
  all.push_back(Depthwise(9, 15, 9, 5, 5, 2, 2));
  all.push_back(Depthwise(11, 11, 6, 7, 7, 1, 3));
  all.push_back(Depthwise(10, 9, 8, 3, 3, 3, 1));       // stride 3
  all.push_back(Depthwise(13, 12, 11, 3, 3, 1, 2, 2));  // dilated
  all.push_back(Depthwise(12, 13, 5, 4, 2, 1, 3, 3));
  all.push_back(Depthwise(8, 9, 7, 1, 3, 1, 1));
  all.push_back(Depthwise(8, 9, 7, 3, 1, 1, 1));
  all.push_back(Depthwise(8, 9, 7, 2, 2, 2, 0));
  all.push_back(Depthwise(9, 9, 7, 2, 3, 1, 1));
  all.push_back(Depthwise(2, 2, 9, 5, 5, 1, 2));  // window larger than the image
  all.push_back(Depthwise(1, 1, 33, 3, 3, 1, 1));
  all.push_back(Depthwise(3, 4, 6, 3, 3, 1, 4));          // windows wholly in the padding
  all.push_back(Depthwise(5, 6, 18, 3, 3, 1, 1, 1, 3));   // batch
  all.push_back(Depthwise(3, 140, 40, 3, 3, 1, 1));       // more pixels than a strip holds
  all.push_back(Depthwise(4, 30, 150, 3, 3, 1, 1));       // several channel groups
  ConvGeometry uneven = Depthwise(9, 10, 8, 3, 3, 1, 1);  // different strides and pads
  uneven.stride_h = 2;
  uneven.pad_top = 0;
  uneven.out_h = 4;
  all.push_back(uneven);
  return all;
}

std::string Describe(const ConvGeometry& g) {
  return std::to_string(g.in_h) + "x" + std::to_string(g.in_w) + "x" + std::to_string(g.in_c) +
         " kernel " + std::to_string(g.kernel_h) + "x" + std::to_string(g.kernel_w) + " stride " +
         std::to_string(g.stride_h) + " pad " + std::to_string(g.pad_top) + " dilation " +
         std::to_string(g.dilation_h);
}

DwConvWeightsLayout Layout(const ConvGeometry& g) {
  DwConvWeightsLayout layout;
  layout.channels = g.in_c;
  layout.kernel_h = g.kernel_h;
  layout.kernel_w = g.kernel_w;
  layout.stride_c = static_cast<int64_t>(g.kernel_h) * g.kernel_w;
  layout.stride_h = g.kernel_w;
  layout.stride_w = 1;
  return layout;
}

void SignedDot8(const DwConvQ8Params* params) { dwconv::DwConvDot8<dot8_forms::Signed>(params); }

void UnsignedDot8(const DwConvQ8Params* params) {
  dwconv::DwConvDot8<dot8_forms::Unsigned>(params);
}

void WrappingDot8(const DwConvQ8Params* params) {
  dwconv::DwConvDot8<dot8_forms::WrappingPairs>(params);
}
bool WrappingSupports(const DwConvQ8Weights& weights) { return dwconv::Dot8Takes(weights, 2); }

/// The rows of the table, and the forms of the row on whole bytes for an instruction that takes
/// signed bytes, with pairs that wrap and pairs that do not.
std::vector<DwConvQ8Kernel> KernelsInEveryForm() {
  std::vector<DwConvQ8Kernel> all(DwConvQ8Kernels().begin(), DwConvQ8Kernels().end());
  for (const DwConvQ8Kernel& kernel : DwConvQ8Kernels()) {
    if (kernel.run != rq_dwconv_q8_dot8) continue;
    const bool affine = std::strcmp(kernel.name, "dwconv_q8_dot8_affine") == 0;
    all.push_back(kernel);
    all.back().name = affine ? "affine, signed" : "dot8, signed";
    all.back().run = SignedDot8;
    if (affine) {
      // It is exact for all weights, though not fast for all. No pairs that wrap are exact.
      all.back().supports = [](const DwConvQ8Weights&) { return true; };
      all.push_back(all.back());
      all.back().name = "affine, unsigned";
      all.back().run = UnsignedDot8;
      continue;
    }
    all.push_back(kernel);
    all.back().name = "dot8, wrapping";
    all.back().run = WrappingDot8;
    all.back().supports = WrappingSupports;
  }
  return all;
}

/// Computes the output by the scalar row of the general convolution.
void RunReference(const ConvGeometry& g, const ConvQ8Weights& weights, const uint8_t* input,
                  bool input_signed, int32_t zero_point, const PreparedRequantize& prepared,
                  ConvQ8Output type, uint8_t* output) {
  const ConvQ8Kernel& reference = ConvQ8Kernels()[0];
  std::vector<uint8_t> packed(reference.packed_size(weights));
  reference.pack_weights(weights, packed.data());
  ConvQ8Params p;
  p.geometry = g;
  p.row_end = ConvRows(g);
  p.input = input;
  p.input_signed = input_signed;
  p.input_zero_point = zero_point;
  p.weights = packed.data();
  p.output = output;
  p.output_type = type;
  p.requantize = prepared.Params();
  reference.run(&p);
}

TEST(DwConvQ8, MatchesTheGeneralConvolution) {
  std::mt19937 random(31);
  const RequantizeMode modes[] = {RequantizeMode::kUpward, RequantizeMode::kFloat,
                                  RequantizeMode::kUpward, RequantizeMode::kToNearest,
                                  RequantizeMode::kGemmlowp};
  const Fill fills[] = {Fill::kRandom, Fill::kLowest, Fill::kRandom, Fill::kHighest};
  const std::vector<DwConvQ8Kernel> kernels = KernelsInEveryForm();
  int variant = 0, signed_form = 0, wrapping = 0, affine = 0;
  for (const ConvGeometry& geometry : Geometries()) {
    for (int repeat = 0; repeat < 3; ++repeat, variant += 7) {
      ConvGeometry g = geometry;
      g.input_stride += variant % 3;
      g.output_stride += variant % 2 * 5;
      const bool input_signed = variant & 1, weight_signed = variant & 2;
      const bool output_signed = variant & 4;
      const int32_t ends[] = {0, 255, 128, 77, -128, 127, 0, -5};
      const int32_t input_zero_point = ends[variant / 2 % 4 + (input_signed ? 4 : 0)];
      const size_t taps = static_cast<size_t>(g.kernel_h) * g.kernel_w;
      const auto input = Bytes(random, Elements(g.batch * g.in_h * g.in_w, g.input_stride, g.in_c),
                               fills[variant / 3 % 4], input_signed);
      const auto data = Bytes(random, taps * g.in_c, fills[variant / 5 % 4], weight_signed);
      std::vector<int32_t> zero_points, bias;
      std::vector<double> multipliers;
      for (int32_t c = 0; c < g.in_c; ++c) {
        zero_points.push_back(static_cast<int32_t>(random() % 256) - (weight_signed ? 128 : 0));
        bias.push_back(static_cast<int32_t>(random() % 20001) - 10000);
        multipliers.push_back(0.002 * (1.0 + static_cast<double>(random() % 1000) / 100.0));
        if (variant % 5 == 0) multipliers.back() = std::ceil(multipliers.back() * 65536) / 65536;
      }
      ConvQ8Weights general;
      general.layout = OihwLayout(g.out_c, 1, g.kernel_h, g.kernel_w, g.groups);
      general.data = data.data();
      general.is_signed = weight_signed;
      if (variant % 3 != 0) general.zero_points = zero_points.data();
      if (variant % 4 != 0) general.bias = bias.data();
      DwConvQ8Weights weights;
      weights.layout = Layout(g);
      weights.data = general.data;
      weights.is_signed = general.is_signed;
      weights.zero_points = general.zero_points;
      weights.bias = general.bias;

      std::vector<int64_t> bounds(g.out_c), general_bounds(g.out_c);
      DwConvQ8AccumulatorBounds(weights, 255, bounds.data());
      ConvQ8AccumulatorBounds(general, 255, general_bounds.data());
      ASSERT_EQ(bounds, general_bounds);
      const int32_t lo = output_signed ? -128 : 0;
      const PreparedRequantize prepared = PrepareRequantize(
          modes[variant % 5], multipliers, bounds, lo + static_cast<int32_t>(random() % 256),
          lo + (variant % 3 == 0 ? 11 : 0), lo + 255 - (variant % 5 == 0 ? 60 : 0));

      const int32_t rows = ConvRows(g);
      const size_t size = Elements(rows, g.output_stride, g.out_c);
      std::vector<uint8_t> expected(size, 0xA5);
      RunReference(g, general, input.data(), input_signed, input_zero_point, prepared,
                   output_signed ? ConvQ8Output::kInt8 : ConvQ8Output::kUint8, expected.data());
      for (const DwConvQ8Kernel& kernel : kernels) {
        if (!kernel.supports(weights)) continue;
        signed_form += std::strcmp(kernel.name, "dot8, signed") == 0;
        wrapping += std::strcmp(kernel.name, "dot8, wrapping") == 0;
        affine += std::strcmp(kernel.name, "dwconv_q8_dot8_affine") == 0;
        std::vector<uint8_t> packed(kernel.packed_size(weights));
        kernel.pack_weights(weights, packed.data());
        std::vector<uint8_t> got(size, 0xA5);
        DwConvQ8Params p;
        p.geometry = g;
        p.input = input.data();
        p.input_signed = input_signed;
        p.input_zero_point = input_zero_point;
        p.weights = packed.data();
        p.output = got.data();
        p.output_signed = output_signed;
        p.requantize = prepared.Params();
        const std::vector<int32_t> cuts = Cuts(random, rows);
        RunRanges(kernel, p, cuts);
        ASSERT_EQ(got, expected) << kernel.name << " " << Describe(g) << " variant " << variant;
      }
    }
  }
  EXPECT_GT(signed_form, 10);
  EXPECT_GT(wrapping, 0);
  EXPECT_GT(affine, 0);
}

/// Sums of few bits: every geometry, codes of 1 to 8 bits by weights of 1 to 8 bits, against the
/// general reference.
TEST(DwConvQ8, NarrowMatchesTheGeneralConvolution) {
  std::mt19937 random(37);
  const auto rows = DwConvQ8Kernels();
  const DwConvQ8Kernel& narrow = *std::find_if(rows.begin(), rows.end(), [](const auto& row) {
    return std::string_view(row.name) == "dwconv_q8_narrow";
  });
  int runs = 0, planes_runs = 0;
  for (const ConvGeometry& geometry : Geometries()) {
    for (int variant = 0; variant < 16; ++variant) {
      ConvGeometry g = geometry;
      g.input_stride += variant % 3;
      g.output_stride += variant % 2 * 5;
      const int bits = 1 + static_cast<int>(random() % 8), weight_bits = 1 + variant % 8;
      const bool input_signed = variant & 1, extreme = variant >= 12;
      const int32_t span = (1 << bits) - 1, least = input_signed ? -128 : 0;
      const int32_t low = least + static_cast<int32_t>(random() % (256 - span));
      const auto any = [&](int32_t lo, int32_t hi) {
        const int32_t at = static_cast<int32_t>(random() % static_cast<uint32_t>(hi - lo + 1));
        return extreme ? (variant % 2 == 0 ? hi : lo) : lo + at;
      };
      std::vector<uint8_t> input(Elements(g.batch * g.in_h * g.in_w, g.input_stride, g.in_c));
      for (uint8_t& code : input) code = static_cast<uint8_t>(any(low, low + span));
      const int32_t taps = g.kernel_h * g.kernel_w, half = 1 << (weight_bits - 1);
      std::vector<uint8_t> data(static_cast<size_t>(taps) * g.in_c);
      for (uint8_t& w : data) w = static_cast<uint8_t>(any(-half, half - 1));
      std::vector<int32_t> bias(g.in_c);
      for (int32_t& b : bias) b = static_cast<int32_t>(random() % 2001) - 1000;
      ConvQ8Weights general;
      general.layout = OihwLayout(g.out_c, 1, g.kernel_h, g.kernel_w, g.groups);
      general.data = data.data();
      general.bias = bias.data();
      DwConvQ8Weights weights;
      weights.layout = Layout(g);
      weights.data = data.data();
      weights.bias = bias.data();
      weights.input_lo = low;
      weights.input_hi = low + span;
      if (!narrow.supports(weights)) {
        EXPECT_TRUE(bits > 7 || taps * span * half > INT16_MAX);
        continue;
      }
      ++runs;
      const int32_t rows_of = ConvRows(g),
                    zero_point = low + static_cast<int32_t>(random() % (span + 1));
      std::vector<int64_t> bounds(g.out_c);
      DwConvQ8AccumulatorBounds(weights, 255, bounds.data());
      const PreparedRequantize prepared = PrepareRequantize(
          RequantizeMode::kUpward, std::vector<double>(g.out_c, 20.0 / (taps * span * half)),
          bounds, 128, 0, 255);
      std::vector<uint8_t> expected(Elements(rows_of, g.output_stride, g.out_c), 0xA5);
      std::vector<uint8_t> got = expected;
      RunReference(g, general, input.data(), input_signed, zero_point, prepared,
                   ConvQ8Output::kUint8, expected.data());
      std::vector<uint8_t> packed(narrow.packed_size(weights));
      narrow.pack_weights(weights, packed.data());
      DwConvQ8Params p;
      p.geometry = g;
      p.input = input.data();
      p.input_signed = input_signed;
      p.input_zero_point = zero_point;
      p.weights = packed.data();
      p.output = got.data();
      p.requantize = prepared.Params();
      RunRanges(narrow, p, Cuts(random, rows_of));
      ASSERT_EQ(got, expected) << Describe(g) << " " << bits << " by " << weight_bits << " bits";

      // Outputs of two codes as bits.
      if (g.out_c % 8 != 0 || g.output_stride != g.out_c) continue;
      PreparedRequantize two_codes = PrepareRequantize(
          RequantizeMode::kUpward, std::vector<double>(g.out_c, 4.0 / (taps * span * half)), bounds,
          101, 101, 102);
      AddNarrowRequantize(two_codes, bounds);
      p.requantize = two_codes.Params();
      if (!dwconv::CanCompare(&p)) continue;
      RunReference(g, general, input.data(), input_signed, zero_point, two_codes,
                   ConvQ8Output::kUint8, expected.data());
      std::vector<uint8_t> planes(expected.size() / 8);
      p.output = planes.data();
      p.output_planes = 1;
      RunRanges(narrow, p, Cuts(random, rows_of));
      ASSERT_EQ(planes, PlaneOf(expected, rows_of, g.out_c, g.out_c, 101)) << Describe(g);
      ++planes_runs;
    }
  }
  EXPECT_GT(runs, 200);
  EXPECT_GT(planes_runs, 20);
}

TEST(DwConvF32, CloseToDoublesOnEveryGeometry) {
  std::mt19937 random(32);
  int variant = 0;
  for (ConvGeometry g : Geometries()) {
    ++variant;
    g.input_stride += variant % 3;
    g.output_stride += variant % 2 * 3;
    const int32_t rows = ConvRows(g), taps = g.kernel_h * g.kernel_w;
    const auto input = Floats(random, Elements(g.batch * g.in_h * g.in_w, g.input_stride, g.in_c));
    const auto data = Floats(random, static_cast<size_t>(taps) * g.in_c);
    const auto bias = Floats(random, g.in_c);
    DwConvF32Weights weights;
    weights.layout = Layout(g);
    weights.data = data.data();
    if (variant % 4 != 0) weights.bias = bias.data();
    for (const DwConvF32Kernel& kernel : DwConvF32Kernels()) {
      std::vector<uint8_t> packed(kernel.packed_size(weights));
      kernel.pack_weights(weights, packed.data());
      const size_t size = Elements(rows, g.output_stride, g.out_c);
      std::vector<float> whole(size, 12345.0f), pieces(size, 12345.0f);
      DwConvF32Params p;
      p.geometry = g;
      p.input = input.data();
      p.weights = packed.data();
      if (variant % 5 < 2) {
        p.lo = -0.25f;
        p.hi = 1.5f;
      }
      const auto run = [&](std::vector<float>& output, const std::vector<int32_t>& cuts) {
        p.output = output.data();
        RunRanges(kernel, p, cuts);
      };
      run(whole, {0, rows});
      run(pieces, Cuts(random, rows));
      ASSERT_EQ(std::memcmp(whole.data(), pieces.data(), size * 4), 0)
          << kernel.name << " depends on the row range: " << Describe(g);
      for (int32_t r = 0; r < rows; ++r) {
        const int32_t ox = r % g.out_w, oy = r / g.out_w % g.out_h, n = r / g.out_w / g.out_h;
        for (int32_t c = 0; c < g.out_c; ++c) {
          double sum = weights.bias == nullptr ? 0.0 : bias[c], magnitude = 1.0;
          for (int32_t t = 0; t < taps; ++t) {
            const int32_t y = oy * g.stride_h + t / g.kernel_w * g.dilation_h - g.pad_top;
            const int32_t x = ox * g.stride_w + t % g.kernel_w * g.dilation_w - g.pad_left;
            if (y < 0 || y >= g.in_h || x < 0 || x >= g.in_w) continue;
            const double product =
                static_cast<double>(input[((n * g.in_h + y) * g.in_w + x) * g.input_stride + c]) *
                data[c * taps + t];
            sum += product;
            magnitude += std::abs(product);
          }
          sum = std::min<double>(std::max<double>(sum, p.lo), p.hi);
          ASSERT_NEAR(whole[static_cast<size_t>(r) * g.output_stride + c], sum, 1e-5 * magnitude)
              << kernel.name << " " << Describe(g) << " row " << r << " channel " << c;
        }
        for (int32_t c = g.out_c; c < g.output_stride && r + 1 < rows; ++c) {
          ASSERT_EQ(whole[static_cast<size_t>(r) * g.output_stride + c], 12345.0f);
        }
      }
    }
  }
}

TEST(DwConvF32, NanReachesOnlyItsWindows) {
  const ConvGeometry g = Depthwise(9, 9, 6, 3, 3, 1, 1);
  std::mt19937 random(33);
  auto input = Floats(random, 9 * 9 * 6);
  input[(4 * 9 + 4) * 6 + 1] = std::numeric_limits<float>::quiet_NaN();
  const auto data = Floats(random, 54);
  DwConvF32Weights weights;
  weights.layout = Layout(g);
  weights.data = data.data();
  for (const DwConvF32Kernel& kernel : DwConvF32Kernels()) {
    std::vector<uint8_t> packed(kernel.packed_size(weights)), workspace(kernel.workspace_size(g));
    kernel.pack_weights(weights, packed.data());
    std::vector<float> output(9 * 9 * 6);
    DwConvF32Params p;
    p.geometry = g;
    p.row_end = 81;
    p.input = input.data();
    p.weights = packed.data();
    p.output = output.data();
    p.workspace = workspace.data();
    p.lo = 0.0f;
    kernel.run(&p);
    for (int32_t i = 0; i < 81 * 6; ++i) {
      const int32_t y = i / 54, x = i / 6 % 9, c = i % 6;
      const bool hit = c == 1 && std::abs(y - 4) <= 1 && std::abs(x - 4) <= 1;
      ASSERT_EQ(std::isnan(output[i]), hit) << kernel.name << " " << y << " " << x << " " << c;
    }
  }
}

}  // namespace
}  // namespace requant
