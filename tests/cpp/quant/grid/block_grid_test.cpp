// The grids of blocks against a search in doubles, which divides and rounds as the formula says.
#include "quant/grid/block_grid.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/lcg.h"

namespace requant {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

double Squares(const std::vector<float>& weights, const std::vector<float>& power, double scale,
               double zero, int bits) {
  double sum = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const auto w = static_cast<double>(weights[i]);
    const double most = std::ldexp(1, bits) - 1;
    const double code = std::clamp(std::nearbyint(w / scale), -zero, most - zero);
    sum += (power.empty() ? 1 : static_cast<double>(power[i])) * std::pow(w - code * scale, 2);
  }
  return sum;
}

/// The least error of the grids that the header describes.
double LeastSquares(const std::vector<float>& weights, const std::vector<float>& power, int bits,
                    bool symmetric) {
  double low = 0, high = 0, least = HUGE_VAL;
  for (const float w : weights) {
    low = std::min(low, static_cast<double>(w));
    high = std::max(high, static_cast<double>(w));
  }
  const double most = std::ldexp(1, bits) - 1;
  for (int step = 0; step < (bits < 4 ? 36 : 24); ++step) {
    const double half = std::ldexp(1, bits - 1);
    if (symmetric) {
      const double scale = std::max(-low, high) / (half - 1) * (1.02 - 0.02 * step);
      least = std::min(least, Squares(weights, power, scale, half, bits));
      continue;
    }
    const double scale = (high - low) / most * (1 - 0.02 * step);
    const double middle = (most - (low + high) / scale) / 2;
    for (const double zero : {std::floor(middle), std::ceil(middle)}) {
      least = std::min(least, Squares(weights, power, scale, std::clamp(zero, 0.0, most), bits));
    }
  }
  return least;
}

TEST(BlockGrid, HasTheLeastErrorOfASearchInDoubles) {
  Lcg random{7};
  const auto uniform = [&] { return static_cast<double>(random.Next() >> 8) / (1 << 24); };
  for (int round = 0; round < 400; ++round) {
    const int bits = round % 4 == 3 ? 8 : 2 + round % 4;
    const bool symmetric = round / 4 % 2 == 0;
    const double size = std::pow(10, uniform() * 60 - 30);
    const double shift = uniform() * 2 - 1;
    std::vector<float> weights(16U << (round % 3)), power;
    for (float& w : weights) w = static_cast<float>((uniform() * 2 - 1 + shift) * size);
    for (size_t i = 0; i < weights.size() / 3; ++i) weights[i] *= 0.1F;
    if (round % 5 == 0) std::fill(weights.end() - 5, weights.end(), 0.0F);
    if (round % 3 == 0) {
      for (size_t i = 0; i < weights.size(); ++i) power.push_back(static_cast<float>(uniform()));
    }
    const BlockGrid grid = BlockSearch(bits, symmetric).Find(weights, power);
    if (symmetric) {
      EXPECT_EQ(grid.zero, 1 << (bits - 1));
    }
    const double found = Squares(weights, power, static_cast<double>(grid.scale), grid.zero, bits);
    const double least = LeastSquares(weights, power, bits, symmetric);
    EXPECT_LE(found, least * 1.0001) << "round " << round;
    std::vector<uint8_t> codes(weights.size());
    RoundToGrid(weights, grid, bits, codes.data());
    for (size_t i = 0; i < weights.size(); ++i) {
      const float steps = std::nearbyint(weights[i] / grid.scale) + static_cast<float>(grid.zero);
      EXPECT_EQ(codes[i], std::clamp(steps, 0.0F, std::ldexp(1.0F, bits) - 1));
    }
  }
}

TEST(BlockGrid, ExtremeWeights) {
  const float largest = std::numeric_limits<float>::max();
  const float denormal = std::numeric_limits<float>::denorm_min();
  for (const bool symmetric : {true, false}) {
    BlockSearch search(4, symmetric);
    const uint8_t zero = symmetric ? 8 : 0;
    for (const float bad : {kInfinity, -kInfinity, kNan, 0.0F}) {
      std::vector<float> weights(16, bad == 0 ? 0.0F : 1.0F);
      weights[5] = bad;
      const BlockGrid grid = search.Find(weights, {});
      EXPECT_EQ(grid.scale, 1);
      EXPECT_EQ(grid.zero, zero);
      std::vector<uint8_t> codes(16);
      RoundToGrid(weights, grid, 4, codes.data());
      EXPECT_EQ(codes[5], bad == 0 ? zero : bad > 0 ? 15 : 0);
    }
    for (const float size : {largest, denormal * 1024, std::numeric_limits<float>::min()}) {
      std::vector<float> weights(16);
      for (size_t i = 0; i < 16; ++i) weights[i] = size * (static_cast<float>(i) / 8 - 1);
      const BlockGrid grid = search.Find(weights, {});
      EXPECT_GT(grid.scale, 0);
      EXPECT_TRUE(std::isfinite(grid.scale));
      std::vector<uint8_t> codes(16);
      RoundToGrid(weights, grid, 4, codes.data());
      EXPECT_LE(codes[0], 1);
      EXPECT_GE(codes[15], 13);
    }
  }
}

}  // namespace
}  // namespace requant
