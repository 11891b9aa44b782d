#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "base/error.h"
#include "kernels/conv/dot8/dot8.h"
#include "kernels/conv/pack.h"
#include "kernels/conv/table.h"
#include "kernels/conv_testing.h"
#include "kernels/dot8_forms.h"
#include "numeric/requantize_prepare.h"
#include "tensor/half.h"

namespace requant {
namespace {

using namespace window_testing;

void SignedDot8(const ConvQ8Params* params) { conv::ConvDot8<dot8_forms::Signed>(params); }
void SignedLines(const ConvQ8Params* params) { conv::ConvDot8Lines<dot8_forms::Signed>(params); }

void WrappingDot8(const ConvQ8Params* params) { conv::ConvDot8<dot8_forms::WrappingPairs>(params); }
void WrappingLines(const ConvQ8Params* params) {
  conv::ConvDot8Lines<dot8_forms::WrappingPairs>(params);
}
bool WrappingSupports(const ConvQ8Weights& weights, const ConvGeometry&) {
  return conv::Dot8Takes(weights, 2);
}
bool WrappingLinesSupports(const ConvQ8Weights& weights, const ConvGeometry& geometry) {
  return conv::Dot8Takes(weights, 2) && conv::Dot8LinesSupports(weights, geometry);
}

/// The rows of the table, and the forms of the rows on whole bytes for an instruction that takes
/// signed bytes, with pairs that wrap and pairs that do not.
std::vector<ConvQ8Kernel> KernelsInEveryForm() {
  std::vector<ConvQ8Kernel> all(ConvQ8Kernels().begin(), ConvQ8Kernels().end());
  for (const ConvQ8Kernel& kernel : ConvQ8Kernels()) {
    const bool lines = std::strcmp(kernel.name, "conv_q8_dot8_lines") == 0;
    if (!lines && std::strcmp(kernel.name, "conv_q8_dot8") != 0) continue;  // conv_affine_test.cpp
    all.push_back(kernel);
    all.back().name = lines ? "lines, signed" : "conv_q8_dot8, signed";
    all.back().run = lines ? SignedLines : SignedDot8;
    all.push_back(kernel);
    all.back().name = lines ? "lines, wrapping" : "conv_q8_dot8, wrapping";
    all.back().run = lines ? WrappingLines : WrappingDot8;
    all.back().supports = lines ? WrappingLinesSupports : WrappingSupports;
  }
  return all;
}

TEST(ConvQ8, AccumulatorsMatchTheDefinition) {
  std::mt19937 random(11);
  const std::vector<ConvQ8Kernel> kernels = KernelsInEveryForm();
  int variant = 0, dot7 = 0, dot7_lines = 0, dot8 = 0, lines = 0, wrapping = 0;
  for (const ConvGeometry& geometry : Geometries()) {
    for (int repeat = 0; repeat < 3; ++repeat, variant += 7) {
      const Q8Case test(random, geometry, variant, repeat == 2);
      const ConvGeometry& g = test.g;
      const int32_t rows = ConvRows(g);
      const size_t size = Elements(rows, g.output_stride, g.out_c);
      std::vector<int32_t> expected(size, 0x5A5A5A5A);
      std::vector<int64_t> bounds(g.out_c);
      const int32_t low = test.input_signed ? -128 : 0;
      ConvQ8AccumulatorBounds(
          test.view, std::max(test.input_zero_point - low, low + 255 - test.input_zero_point),
          bounds.data());
      for (int32_t r = 0; r < rows; ++r) {
        for (int32_t o = 0; o < g.out_c; ++o) {
          const int64_t sum = test.Accumulator(r, o);
          expected[static_cast<size_t>(r) * g.output_stride + o] = static_cast<int32_t>(sum);
          ASSERT_LE(std::abs(sum), bounds[o]);
        }
      }
      for (const ConvQ8Kernel& kernel : kernels) {
        if (!kernel.supports(test.view, test.g)) continue;
        dot7 += std::strcmp(kernel.name, "conv_q8_dot7") == 0;
        dot7_lines += std::strcmp(kernel.name, "conv_q8_dot7_lines") == 0;
        dot8 += std::strcmp(kernel.name, "conv_q8_dot8, signed") == 0;
        lines += std::strcmp(kernel.name, "lines, signed") == 0;
        wrapping += std::strstr(kernel.name, "wrapping") != nullptr;
        std::vector<int32_t> got(size, 0x5A5A5A5A);
        test.Run(kernel, ConvQ8Output::kInt32, {}, Cuts(random, rows), got.data());
        ASSERT_EQ(got, expected) << kernel.name << " " << Describe(g) << " variant " << variant;
      }
    }
  }
  EXPECT_GT(dot7, 0);
  EXPECT_GT(dot7_lines, 0);
  EXPECT_GT(dot8, 0);
  EXPECT_GT(lines, 0);
  EXPECT_GT(wrapping, 0);
}

TEST(ConvQ8, FloatSumsAreThoseOfSeparateOperations) {
  std::mt19937 random(13);
  const std::vector<ConvQ8Kernel> kernels = KernelsInEveryForm();
  const auto numbers = [&random](size_t count, float most) {
    std::vector<float> all(count);
    std::uniform_real_distribution<float> any(-most, most);
    for (float& number : all) number = any(random);
    return all;
  };
  int variant = 0;
  for (const ConvGeometry& geometry : Geometries()) {
    for (int repeat = 0; repeat < 3; ++repeat, variant += 7) {
      const Q8Case test(random, geometry, variant, repeat == 2);
      const ConvGeometry& g = test.g;
      const int32_t rows = ConvRows(g);
      const size_t size = Elements(rows, g.output_stride, g.out_c);
      const size_t channels = static_cast<size_t>(g.out_c) + 3;
      std::vector<float> scale = numbers(channels, 0.01F), bias = numbers(channels, 100);
      if (variant % 9 == 0) scale[0] = std::numeric_limits<float>::infinity();
      FloatSums sums;
      sums.scale = scale.data();
      if (variant % 2 == 0) sums.bias = bias.data();
      sums.residual_stride = g.out_c + variant % 3;
      const std::vector<float> residual =
          numbers(Elements(rows, sums.residual_stride, g.out_c), 50);
      if (variant % 3 != 0) sums.residual = residual.data();
      if (variant % 4 < 2) sums.lo = 0;
      if (variant % 8 < 3) sums.hi = 60;
      std::vector<float> expected(size, -7);
      for (int32_t r = 0; r < rows; ++r) {
        for (int32_t o = 0; o < g.out_c; ++o) {
          float sum = static_cast<float>(static_cast<int32_t>(test.Accumulator(r, o)));
          sum *= scale[o];
          if (sums.bias) sum += bias[o];
          if (sums.residual) sum += residual[static_cast<size_t>(r) * sums.residual_stride + o];
          if (sum < sums.lo) sum = sums.lo;
          if (sum > sums.hi) sum = sums.hi;
          expected[static_cast<size_t>(r) * g.output_stride + o] = sum;
        }
      }
      for (const ConvQ8Kernel& kernel : kernels) {
        if (!kernel.supports(test.view, test.g)) continue;
        std::vector<float> got(size, -7);
        test.Run(kernel, ConvQ8Output::kFloat32, {}, Cuts(random, rows), got.data(), sums);
        for (size_t i = 0; i < size; ++i) {
          ASSERT_TRUE(got[i] == expected[i] || (std::isnan(got[i]) && std::isnan(expected[i])))
              << kernel.name << " " << Describe(g) << " variant " << variant << " at " << i << ": "
              << got[i] << " for " << expected[i];
        }
      }
    }
  }
}

TEST(ConvQ8, RequantizedOutputsMatchTheReferenceRow) {
  std::mt19937 random(12);
  const std::vector<ConvGeometry> geometries = Geometries();
  const RequantizeMode modes[] = {RequantizeMode::kUpward, RequantizeMode::kFloat,
                                  RequantizeMode::kToNearest, RequantizeMode::kGemmlowp};
  const std::vector<ConvQ8Kernel> kernels = KernelsInEveryForm();
  int variant = 0, paths[3] = {0, 0, 0};
  for (const ConvGeometry& geometry : geometries) {
    for (int repeat = 0; repeat < 4; ++repeat, variant += 5) {
      const Q8Case test(random, geometry, variant, repeat == 3);
      const ConvGeometry& g = test.g;
      std::vector<int64_t> bounds(g.out_c);
      ConvQ8AccumulatorBounds(test.view, 255, bounds.data());
      std::vector<double> multipliers;
      for (int32_t o = 0; o < g.out_c; ++o) {
        const double spread = std::ldexp(1.0 + random() / 4294967296.0,
                                         -static_cast<int>(random() % (variant % 3 * 4 + 1)));
        multipliers.push_back(40.0 * spread /
                              (1.0 + std::sqrt(static_cast<double>(bounds[o])) * 40));
        double& m = multipliers.back();
        if (repeat == 2) m = std::ceil(m * 65536) / 65536;  // simple: codes in float32
      }
      const bool is_signed = variant % 2;
      const int32_t lo = is_signed ? -128 : 0, hi = is_signed ? 127 : 255;
      const bool clamp = variant % 3 == 0;
      const PreparedRequantize prepared = PrepareRequantize(
          modes[repeat == 0 ? 0 : variant % 4], multipliers, bounds,
          static_cast<int32_t>(random() % 256) + lo, clamp ? lo + 9 : lo, clamp ? hi - 50 : hi);
      ++paths[static_cast<int>(prepared.Params().path)];
      const int32_t rows = ConvRows(g);
      const ConvQ8Output type = is_signed ? ConvQ8Output::kInt8 : ConvQ8Output::kUint8;
      const size_t size = Elements(rows, g.output_stride, g.out_c);
      std::vector<uint8_t> expected(size, 0xA5);
      test.Run(ConvQ8Kernels()[0], type, prepared.Params(), {0, rows}, expected.data());
      for (const ConvQ8Kernel& kernel : kernels) {
        if (!kernel.supports(test.view, test.g)) continue;
        std::vector<uint8_t> got(size, 0xA5);
        test.Run(kernel, type, prepared.Params(), Cuts(random, rows), got.data());
        ASSERT_EQ(got, expected) << kernel.name << " " << Describe(g) << " variant " << variant;
      }
    }
  }
  EXPECT_GT(paths[static_cast<int>(RequantizePath::kDouble)], 0);
  EXPECT_GT(paths[static_cast<int>(RequantizePath::kShift)], 0);
}

TEST(ConvQ8, Dot7RefusesEightBitWeights) {
  std::mt19937 random(13);
  Q8Case test(random, Geometry(1, 4, 4, 4, 1, 1, 1, 0), 2, true);
  const ConvQ8Kernel& dot7 = Row("conv_q8_dot7");
  test.weights[5] = static_cast<uint8_t>(-64);
  EXPECT_TRUE(dot7.supports(test.view, test.g));
  test.weights[5] = 64;
  EXPECT_FALSE(dot7.supports(test.view, test.g));
}

void RunF32(const ConvF32Kernel& kernel, ConvF32Params p, const ConvF32Weights& weights,
            const std::vector<int32_t>& cuts) {
  std::vector<uint8_t> packed(kernel.packed_size(weights));
  kernel.pack_weights(weights, packed.data());
  p.weights = packed.data();
  p.halves = kernel.takes_halves() ? 1 : 0;
  RunRanges(kernel, p, cuts);
}

/// Rounds weights to 16 bits: the row that takes halves gets these, the others their floats.
std::vector<uint16_t> RoundToHalves(std::vector<float>& weights, bool bfloat, int variant) {
  const DType dtype = bfloat ? DType::kBfloat16 : DType::kFloat16;
  // Every size of float16 occurs, subnormal numbers and the largest ones.
  if (variant % 3 == 1) {
    for (size_t i = 0; i < weights.size(); ++i) {
      weights[i] = std::ldexp(weights[i], -static_cast<int>(i % 26));
    }
  }
  if (variant % 6 == 4 && weights.size() > 1) weights[1] = 60000;
  std::vector<uint16_t> halves(weights.size());
  FloatsToHalves(dtype, weights.data(), weights.size(), halves.data());
  HalvesToFloats(dtype, halves.data(), halves.size(), weights.data());
  return halves;
}

TEST(ConvF32, CloseToDoublesOnEveryGeometry) {
  std::mt19937 random(21);
  int variant = 0;
  for (ConvGeometry g : Geometries()) {
    ++variant;
    g.input_stride += variant % 3;
    g.output_stride += variant % 2 * 3;
    const int32_t rows = ConvRows(g);
    const auto input = Floats(random, Elements(g.batch * g.in_h * g.in_w, g.input_stride, g.in_c));
    auto data = Floats(random, WeightCount(g));
    const std::vector<uint16_t> halves = RoundToHalves(data, variant % 2 == 0, variant);
    const auto bias = Floats(random, g.out_c);
    const int32_t residual_stride = g.out_c + variant % 4;
    const auto residual = Floats(random, Elements(rows, residual_stride, g.out_c));
    ConvF32Weights weights;
    weights.half = {halves.data(), halves.size(), variant % 2 == 0};
    ASSERT_TRUE(conv::HalvesFit(weights.half));
    weights.layout = OihwLayout(g.out_c, g.in_c / g.groups, g.kernel_h, g.kernel_w, g.groups);
    weights.data = data.data();
    if (variant % 4 != 0) weights.bias = bias.data();
    ConvF32Params p;
    p.geometry = g;
    p.input = input.data();
    if (variant % 3 == 0) {
      p.residual = residual.data();
      p.residual_stride = residual_stride;
    }
    if (variant % 5 < 2) {
      p.lo = 0.0f;
      p.hi = 0.75f;
    }
    std::vector<float> vector_row;
    for (const ConvF32Kernel& kernel : ConvF32Kernels()) {
      if (!kernel.supports(g)) continue;
      const size_t size = Elements(rows, g.output_stride, g.out_c);
      std::vector<float> whole(size, 12345.0f), pieces(size, 12345.0f);
      p.output = whole.data();
      RunF32(kernel, p, weights, {0, rows});
      p.output = pieces.data();
      RunF32(kernel, p, weights, Cuts(random, rows));
      ASSERT_EQ(std::memcmp(whole.data(), pieces.data(), size * 4), 0)
          << kernel.name << " depends on the row range: " << Describe(g);
      if (std::string_view(kernel.isa) == "simd128") {
        if (vector_row.empty()) vector_row = whole;
        ASSERT_EQ(std::memcmp(whole.data(), vector_row.data(), size * 4), 0)
            << kernel.name << " differs from the other vector row: " << Describe(g);
      }
      for (int32_t r = 0; r < rows; ++r) {
        for (int32_t o = 0; o < g.out_c; ++o) {
          double sum = weights.bias == nullptr ? 0.0 : bias[o];
          double magnitude = std::abs(sum);
          ForEachTap(g, r, o, [&](int i, int w) {
            const double product = static_cast<double>(input[i]) * data[w];
            sum += product;
            magnitude += std::abs(product);
          });
          if (p.residual != nullptr) sum += residual[r * residual_stride + o];
          sum = std::min<double>(std::max<double>(sum, p.lo), p.hi);
          ASSERT_NEAR(whole[static_cast<size_t>(r) * g.output_stride + o], sum,
                      1e-5 * magnitude + 1e-6)
              << kernel.name << " " << Describe(g);
        }
        for (int32_t o = g.out_c; o < g.output_stride && r + 1 < rows; ++o) {
          ASSERT_EQ(whole[static_cast<size_t>(r) * g.output_stride + o], 12345.0f);
        }
      }
    }
  }
}

TEST(ConvF32, NanPassesTheClamp) {
  std::mt19937 random(22);
  const ConvGeometry g = Geometry(1, 9, 5, 11, 1, 1, 1, 0);
  auto input = Floats(random, 45);
  input[7 * 5 + 2] = std::numeric_limits<float>::quiet_NaN();
  auto data = Floats(random, 55);
  const std::vector<uint16_t> halves = RoundToHalves(data, false, 0);
  ConvF32Weights weights;
  weights.half = {halves.data(), halves.size(), false};
  weights.layout = OihwLayout(11, 5, 1, 1, 1);
  weights.data = data.data();
  for (const ConvF32Kernel& kernel : ConvF32Kernels()) {
    std::vector<float> output(99);
    ConvF32Params p;
    p.geometry = g;
    p.input = input.data();
    p.output = output.data();
    p.lo = 0.0f;
    p.hi = 6.0f;
    RunF32(kernel, p, weights, {0, 9});
    for (int32_t r = 0; r < 9; ++r) {
      for (int32_t o = 0; o < 11; ++o) {
        ASSERT_EQ(std::isnan(output[r * 11 + o]), r == 7) << kernel.name << " " << r << " " << o;
      }
    }
  }
}

TEST(ConvWorkspace, RefusesGeometriesThatLeaveInt32) {
  ConvGeometry huge = Geometry(4, 4, 8, 8, 3, 3, 1, 1);
  huge.batch = 1 << 30;
  ConvGeometry wide = Geometry(4, 4, 8, 8, 3, 3, 1, 1);
  wide.stride_w = INT32_MAX;
  ConvGeometry groups = Geometry(4, 4, 8, 8, 3, 3, 1, 1);
  groups.groups = 3;
  ConvGeometry overlap = Geometry(4, 4, 8, 8, 3, 3, 1, 1);
  overlap.output_stride = 7;
  for (const ConvGeometry& g : {huge, wide, groups, overlap}) {
    for (const ConvF32Kernel& kernel : ConvF32Kernels()) {
      EXPECT_THROW(kernel.workspace_size(g), Error) << kernel.name;
    }
    for (const ConvQ8Kernel& kernel : ConvQ8Kernels()) {
      EXPECT_THROW(kernel.workspace_size(g), Error) << kernel.name;
    }
  }
}

TEST(ConvWeights, HalvesMustBeFinite) {
  const uint16_t finite[] = {0x7bff, 0xfbff}, infinite[] = {0, 0x7c00}, bfloat[] = {0x7f80};
  EXPECT_TRUE(conv::HalvesFit({finite, 2, false}));
  EXPECT_FALSE(conv::HalvesFit({infinite, 2, false}));
  EXPECT_TRUE(conv::HalvesFit({infinite, 2, true}));
  EXPECT_FALSE(conv::HalvesFit({bfloat, 1, true}));
}

TEST(ConvWeights, StridesReadATransposedMatrix) {
  // A Gemm's [K, N] matrix: stride_o 1, stride_i N.
  std::vector<float> matrix = {1, 2, 3, 10, 20, 30};  // K = 2, N = 3
  const std::vector<uint16_t> halves = RoundToHalves(matrix, false, 0);
  ConvF32Weights weights;
  weights.half = {halves.data(), halves.size(), false};
  weights.layout.out_c = 3;
  weights.layout.in_c_per_group = 2;
  weights.layout.stride_o = 1;
  weights.layout.stride_i = 3;
  weights.data = matrix.data();
  const float input[] = {1, 1, 2, -1};
  for (const ConvF32Kernel& kernel : ConvF32Kernels()) {
    std::vector<float> output(6);
    ConvF32Params p;
    p.geometry = Geometry(1, 2, 2, 3, 1, 1, 1, 0);
    p.input = input;
    p.output = output.data();
    RunF32(kernel, p, weights, {0, 2});
    EXPECT_EQ(output, (std::vector<float>{11, 22, 33, -8, -16, -24})) << kernel.name;
  }
}

}  // namespace
}  // namespace requant
