// The rows for weights with zero points, conv_q8_dot8_affine and conv_q8_dot8_affine_lines.
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/conv/dot8/dot8.h"
#include "kernels/conv/table.h"
#include "kernels/conv_testing.h"
#include "kernels/dot8_forms.h"

namespace requant {
namespace {

using namespace window_testing;

/// Whether no channel's weights are more than 254 apart, so that less their middle they are bytes
/// above -128.
bool WrappingSupports(const ConvQ8Weights& weights, const ConvGeometry& geometry) {
  const ConvWeightsLayout& l = weights.layout;
  const int64_t depth = int64_t{l.in_c_per_group} * l.kernel_h * l.kernel_w;
  for (int32_t o = 0; o < geometry.out_c; ++o) {
    int32_t lo = weights.zero_points == nullptr ? 0 : weights.zero_points[o], hi = lo;
    for (int64_t i = o * l.stride_o; i < o * l.stride_o + depth; ++i) {
      const int32_t code = weights.is_signed ? static_cast<const int8_t*>(weights.data)[i]
                                             : static_cast<const uint8_t*>(weights.data)[i];
      lo = std::min(lo, code);
      hi = std::max(hi, code);
    }
    if (hi - lo > 254) return false;
  }
  return true;
}

bool WrappingLinesSupports(const ConvQ8Weights& weights, const ConvGeometry& geometry) {
  return conv::LinesFit(geometry) && WrappingSupports(weights, geometry);
}

/// The rows as they are here, and for an instruction that takes signed bytes, with pairs that wrap
/// and pairs that do not.
std::vector<ConvQ8Kernel> AffineKernels() {
  std::vector<ConvQ8Kernel> all(3, Row("conv_q8_dot8_affine"));
  all[1].name = "affine, signed";
  all[1].run = [](const ConvQ8Params* p) { conv::ConvDot8<dot8_forms::Signed>(p); };
  all[2].name = "affine, wrapping";
  all[2].run = [](const ConvQ8Params* p) { conv::ConvDot8<dot8_forms::WrappingPairs>(p); };
  all[2].supports = WrappingSupports;
  all.resize(6, Row("conv_q8_dot8_affine_lines"));
  all[4].name = "affine lines, signed";
  all[4].run = [](const ConvQ8Params* p) { conv::ConvDot8Lines<dot8_forms::Signed>(p); };
  all[5].name = "affine lines, wrapping";
  all[5].run = [](const ConvQ8Params* p) { conv::ConvDot8Lines<dot8_forms::WrappingPairs>(p); };
  all[5].supports = WrappingLinesSupports;
  return all;
}

TEST(ConvAffine, MatchesTheDefinitionForExtremeZeroPoints) {
  std::mt19937 random(17);
  const std::vector<ConvQ8Kernel> kernels = AffineKernels();
  constexpr int32_t kZeroPoints[] = {0, 127, 128, 255, 149, 1, 254};
  int checked[6] = {}, variant = 0;
  for (const ConvGeometry& geometry : Geometries()) {
    if (geometry.in_c > 300) continue;
    for (int repeat = 0; repeat < 7; ++repeat, ++variant) {
      Q8Case test(random, geometry, variant, false);
      const int32_t least = test.weight_signed ? -128 : 0;
      test.weight_zero_points.clear();
      for (int32_t o = 0; o < test.g.out_c; ++o) {
        const int32_t at = repeat == 6 ? o : repeat;  // of the tensor, or of each channel
        test.weight_zero_points.push_back(kZeroPoints[at % 7] + least);
      }
      test.view.zero_points = test.weight_zero_points.data();
      // Every third case has no codes at one end, so that no channel's weights are 255 apart.
      if (variant % 3 == 0) {
        for (uint8_t& code : test.weights) {
          if (code == static_cast<uint8_t>(least)) code = static_cast<uint8_t>(least + 1);
        }
        for (int32_t& zero_point : test.weight_zero_points) {
          zero_point = std::max(zero_point, least + 1);
        }
      }
      const std::vector<int32_t> expected = Definition(test);
      for (size_t i = 0; i < kernels.size(); ++i) {
        if (!kernels[i].supports(test.view, test.g)) continue;
        ++checked[i];
        std::vector<int32_t> got(expected.size(), 0x5A5A5A5A);
        test.Run(kernels[i], ConvQ8Output::kInt32, {}, Cuts(random, ConvRows(test.g)), got.data());
        ASSERT_EQ(got, expected) << kernels[i].name << " " << Describe(test.g) << " variant "
                                 << variant;
      }
    }
  }
  EXPECT_EQ(checked[0], variant);
  EXPECT_EQ(checked[1], variant);
  EXPECT_GT(checked[2], variant / 4);
  EXPECT_GT(checked[3], variant / 3);
  EXPECT_EQ(checked[4], checked[3]);
  EXPECT_GT(checked[5], variant / 12);
}

TEST(ConvAffine, TermsMayLeaveInt32WhereAccumulatorsDoNot) {
  // 70000 inputs of 255 times the middle 127 or 128 are beyond 2^31; all weights but one are their
  // zero point.
  std::mt19937 random(18);
  for (const int32_t rows : {1, 3, 9}) {
    Q8Case test(random, Geometry(1, rows, 70000, 9, 1, 1, 1, 0), 0, false);
    std::fill(test.input.begin(), test.input.end(), uint8_t{255});
    std::fill(test.weights.begin(), test.weights.end(), uint8_t{0});
    test.weight_zero_points.assign(9, 0);
    test.view.zero_points = test.weight_zero_points.data();
    for (size_t o = 0; o < 9; ++o) test.weights[70000 * o + 7 * o] = o % 2 == 0 ? 255 : 254;
    const std::vector<int32_t> expected = Definition(test);
    EXPECT_EQ(expected[0], 255 * 255);
    for (const ConvQ8Kernel& kernel : AffineKernels()) {
      if (!kernel.supports(test.view, test.g)) continue;
      std::vector<int32_t> got(expected.size(), 0x5A5A5A5A);
      test.Run(kernel, ConvQ8Output::kInt32, {}, {0, rows}, got.data());
      EXPECT_EQ(got, expected) << kernel.name << " " << rows << " rows";
    }
  }
}

/// Matrices [K, N] that change at run time, whose packing does not look at the codes.
TEST(ConvAffine, MatricesOfTheRun) {
  std::mt19937 random(20);
  int variant = 0, plain = 0;
  for (const int32_t depth : {1, 2, 3, 4, 5, 31, 32, 64, 197}) {
    for (const int32_t columns : {1, 7, 8, 9, 16, 33, 197}) {
      for (int repeat = 0; repeat < 4; ++repeat, ++variant) {
        const auto rows = static_cast<int32_t>(1 + random() % 19);
        Q8Case test(random, Geometry(1, rows, depth, columns, 1, 1, 1, 0), variant, false);
        test.bias.clear();
        test.view.bias = nullptr;
        const std::vector<int32_t> expected = Definition(test);
        std::vector<uint8_t> matrix(test.weights.size());
        for (int32_t o = 0; o < columns; ++o) {
          for (int32_t k = 0; k < depth; ++k) {
            matrix[static_cast<size_t>(k * columns + o)] =
                test.weights[static_cast<size_t>(o * depth + k)];
          }
        }
        test.view.dynamic = true;
        test.view.data = matrix.data();
        test.view.layout.stride_o = 1;
        test.view.layout.stride_i = columns;
        std::vector<ConvQ8Kernel> kernels = AffineKernels();
        kernels.resize(2);  // those that take all codes
        EXPECT_EQ(kernels[0].is_preferred(test.view, test.g),
                  !Row("conv_q8_dot8").supports(test.view, test.g));
        const ConvQ8Kernel& bytes = Row("conv_q8_dot8");
        if (bytes.supports(test.view, test.g)) kernels.push_back(bytes), ++plain;
        for (const ConvQ8Kernel& kernel : kernels) {
          std::vector<int32_t> got(expected.size(), 0x5A5A5A5A);
          test.Run(kernel, ConvQ8Output::kInt32, {}, Cuts(random, rows), got.data());
          ASSERT_EQ(got, expected)
              << kernel.name << " " << Describe(test.g) << " variant " << variant;
        }
      }
    }
  }
  EXPECT_GT(plain, variant / 16);
}

TEST(ConvAffine, PrefersTheAffineRowOnlyForConstantWeightsOfNineBits) {
  std::mt19937 random(19);
  Q8Case test(random, Geometry(4, 4, 16, 16, 1, 1, 1, 0), 4, true);
  const ConvQ8Kernel& affine = Row("conv_q8_dot8_affine");
  EXPECT_TRUE(affine.supports(test.view, test.g));
  EXPECT_FALSE(affine.is_preferred(test.view, test.g));
  test.weight_zero_points.assign(16, -100);
  test.view.zero_points = test.weight_zero_points.data();
  test.weights[3] = 127;
  EXPECT_TRUE(affine.is_preferred(test.view, test.g));
  test.view.dynamic = true;
  EXPECT_FALSE(affine.is_preferred(test.view, test.g));
  Q8Case first(random, Geometry(32, 32, 3, 16, 3, 3, 1, 1), 4, false);
  first.weight_zero_points.assign(16, 0);
  first.weights[0] = 255;
  first.view.is_signed = false;
  first.view.zero_points = first.weight_zero_points.data();
  EXPECT_TRUE(affine.supports(first.view, first.g));
  EXPECT_FALSE(affine.is_preferred(first.view, first.g));  // left to lines in place
  const ConvQ8Kernel& lines = Row("conv_q8_dot8_affine_lines");
  EXPECT_TRUE(lines.supports(first.view, first.g));
  EXPECT_TRUE(lines.is_preferred(first.view, first.g));
  EXPECT_FALSE(lines.is_preferred(test.view, test.g));
}

}  // namespace
}  // namespace requant
