// Softmax and layer normalization in integers stay within the bounds that their headers state, held
// against double precision: random rows of 8 and 16 bits, at all scales, with rows of ends.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "numeric/integer_layer_norm.h"
#include "numeric/integer_softmax.h"

namespace requant {
namespace {

int Pick(std::mt19937& random, int lo, int hi) {
  return lo + static_cast<int>(random() % static_cast<uint32_t>(hi - lo + 1));
}

float Scale(std::mt19937& random, int least_power) {
  return std::ldexp(1 + 0.01F * static_cast<float>(Pick(random, 0, 99)),
                    -Pick(random, 0, least_power));
}

std::vector<int> Row(std::mt19937& random, int length, int codes) {
  std::vector<int> row(static_cast<size_t>(length));
  const int kind = Pick(random, 0, 3), near = Pick(random, 0, codes - 4);
  for (int& q : row) {
    q = kind == 0                  ? Pick(random, 0, codes - 1)
        : kind == 1                ? Pick(random, 0, 1) * (codes - 1)
        : kind == 2                ? near + Pick(random, 0, 3)
        : Pick(random, 0, 19) == 0 ? codes - 1
                                   : codes / 2;
  }
  return row;
}

TEST(IntegerSoftmax, StaysWithinItsBound) {
  std::mt19937 random(3);
  for (int i = 0; i < 2000; ++i) {
    const int codes = Pick(random, 0, 1) ? 65536 : 256, hi = Pick(random, 0, 1) ? 65535 : 255;
    const int length = Pick(random, 0, 19) ? Pick(random, 1, 300) : Pick(random, 1, 5000);
    const float x_scale = Scale(random, 18);
    const float y_scale = Scale(random, 3) / static_cast<float>(hi);
    const int zero = Pick(random, 0, 2) ? 0 : Pick(random, 0, hi);
    const IntegerSoftmax softmax = MakeIntegerSoftmax(x_scale, y_scale, zero, hi);
    const std::vector<int> row = Row(random, length, codes);
    const int most = *std::max_element(row.begin(), row.end());
    uint64_t sum = 0;
    double real_sum = 0;
    for (const int q : row) {
      sum += SoftmaxTerm(softmax, static_cast<uint32_t>(most - q));
      real_sum += std::exp(static_cast<double>(x_scale) * (q - most));
    }
    const SoftmaxDivisor by = DivideSoftmax(softmax, sum);
    const double bound = 0.5 + (length + 8) * std::ldexp(1.0, -30) / static_cast<double>(y_scale);
    for (const int q : row) {
      const double y = std::exp(static_cast<double>(x_scale) * (q - most)) / real_sum /
                           static_cast<double>(y_scale) +
                       zero;
      const int code =
          SoftmaxCode(softmax, by, SoftmaxTerm(softmax, static_cast<uint32_t>(most - q)));
      ASSERT_NEAR(code, std::min<double>(y, hi), bound) << "case " << i << ", code " << q;
    }
  }
}

/// A scale so small or so large that the shift of the result saturates.
TEST(IntegerSoftmax, SaturatesAtExtremeScales) {
  for (const float scale : {1e-38F, 1e-20F, 1e20F, 1e38F}) {
    const IntegerSoftmax softmax = MakeIntegerSoftmax(0.1F, scale, 7, 255);
    const SoftmaxDivisor by = DivideSoftmax(softmax, uint64_t{1} << 30);
    EXPECT_EQ(SoftmaxCode(softmax, by, uint32_t{1} << 30), scale < 1 ? 255 : 7);
    EXPECT_EQ(SoftmaxCode(softmax, by, 0), 7);
  }
}

TEST(IntegerLayerNorm, StaysWithinItsBound) {
  std::mt19937 random(4);
  int made = 0;
  for (int i = 0; i < 3000; ++i) {
    const bool center = Pick(random, 0, 1) == 1;
    const int codes = Pick(random, 0, 1) ? 65536 : 256, hi = Pick(random, 0, 1) ? 65535 : 255;
    const int length = Pick(random, 0, 99) ? Pick(random, 1, 600) : Pick(random, 1, 32768);
    LayerNormScales scales;
    scales.x = Scale(random, 24);
    scales.x_zero_point = Pick(random, 0, codes - 1);
    const double size = std::ldexp(1.0, Pick(random, -4, 4));
    scales.y = static_cast<float>(8 * size / hi) * Scale(random, 6);
    scales.y_zero_point = Pick(random, 0, hi);
    std::vector<double> gamma, beta;
    const bool with_beta = Pick(random, 0, 1) == 1;
    for (int at = 0; at < length; ++at) {
      gamma.push_back(size * Pick(random, -1000, 1000) / 1000);
      if (with_beta) beta.push_back(size * Pick(random, -1000, 1000) / 200);
    }
    const double epsilon = Pick(random, 0, 3)   ? 1e-5
                           : Pick(random, 0, 1) ? 0
                                                : std::ldexp(1.0, -Pick(random, 0, 40));
    IntegerLayerNorm norm;
    norm.hi = hi;
    if (!MakeIntegerLayerNorm(gamma, beta, scales, epsilon, center, norm)) continue;
    ++made;
    const std::vector<int> row = Row(random, length, codes);
    int64_t sum = 0, squares = 0;
    for (const int q : row) {
      sum += q;
      squares += int64_t{q} * q;
    }
    const LayerNormRow prepared = PrepareLayerNormRow(norm, sum, squares, 0);
    const double mean = center ? static_cast<double>(sum) / length : scales.x_zero_point;
    double variance = 0, largest_gain = 0, largest_offset = 0;
    for (const int q : row) variance += (q - mean) * (q - mean);
    const auto x = static_cast<double>(scales.x), y = static_cast<double>(scales.y);
    variance = variance / length * x * x;
    for (const double gain : gamma) largest_gain = std::max(largest_gain, std::abs(gain / y));
    for (const double offset : beta) {
      largest_offset = std::max(largest_offset, std::abs(offset / y));
    }
    const double root = std::sqrt(length);
    const double bound = 0.5 + largest_gain * (std::ldexp(1.0, -23) + std::ldexp(root, -28)) +
                         std::ldexp(root * (2 + largest_offset + scales.y_zero_point), -38);
    for (size_t at = 0; at < row.size(); ++at) {
      const double normal =
          variance + epsilon > 0 ? (row[at] - mean) * x / std::sqrt(variance + epsilon) : 0;
      const double code =
          (normal * gamma[at] + (with_beta ? beta[at] : 0)) / y + scales.y_zero_point;
      ASSERT_NEAR(LayerNormCode(norm, prepared, row[at], at), std::clamp<double>(code, 0, hi),
                  bound)
          << "case " << i << ", element " << at;
    }
  }
  EXPECT_GT(made, 2500);
}

TEST(IntegerLayerNorm, RefusesWhatInt32DoesNotHold) {
  IntegerLayerNorm norm;
  const LayerNormScales scales{.x = 0.1F, .y = 1e-8F};
  EXPECT_FALSE(MakeIntegerLayerNorm({1, 1}, {}, scales, 1e-5, true, norm));
  EXPECT_FALSE(MakeIntegerLayerNorm({1, 1}, {NAN, 0}, {}, 1e-5, true, norm));
  EXPECT_FALSE(MakeIntegerLayerNorm({1, 1}, {1}, {}, 1e-5, true, norm));
  EXPECT_FALSE(MakeIntegerLayerNorm({1, 1}, {}, {}, -1, true, norm));
  EXPECT_FALSE(
      MakeIntegerLayerNorm(std::vector<double>(32769, 1), {}, LayerNormScales(), 0, true, norm));
  EXPECT_TRUE(MakeIntegerLayerNorm({1, 1}, {}, {}, 1e-5, true, norm));
}

}  // namespace
}  // namespace requant
