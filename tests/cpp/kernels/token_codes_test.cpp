// Rows of floats as codes: the rows of each function bit for bit, and the formula in double.
#include "kernels/token_codes/table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace requant {
namespace {

/// Runs a kernel; rows have `gap` floats of 7 behind them, which must stay.
std::vector<uint8_t> Recode(const TokenCodesKernel& kernel, const std::vector<uint8_t>& in,
                            size_t rows, size_t width) {
  const size_t floats = width * sizeof(float), codes = TokenCodesBytes(width), gap = 8;
  const bool encode = kernel.op == TokenCodesOp::kEncode;
  const size_t stride = (encode ? codes : floats) + gap;
  std::vector<uint8_t> out(rows * stride, 7);
  const TokenCodesParams call{in.data(), out.data(), rows, width, in.size() / rows, stride};
  kernel.run(&call);
  for (size_t i = 0; i < out.size(); ++i) {
    if (i % stride < stride - gap) continue;
    EXPECT_EQ(out[i], 7) << kernel.name << " wrote behind its row";
  }
  return out;
}

std::vector<uint8_t> BytesOf(const std::vector<float>& values) {
  std::vector<uint8_t> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

float FloatAt(const std::vector<uint8_t>& bytes, size_t at) {
  float value;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

TEST(TokenCodes, RowsAgreeAndAreTheFormula) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (size_t width = 1; width < 70; ++width) {
    const size_t rows = 1 + width % 5;
    std::vector<float> x(rows * width);
    for (float& value : x) value = normal(random) * (width % 3 == 0 ? 1e30F : 1);
    for (size_t i = 0; i < width; ++i) x[i] = width % 2 == 0 ? 0 : x[i];
    const auto all = TokenCodesKernels();
    const auto codes = Recode(all[0], BytesOf(x), rows, width);
    ASSERT_EQ(Recode(all[1], BytesOf(x), rows, width), codes) << width;
    const auto floats = Recode(all[2], codes, rows, width);
    ASSERT_EQ(Recode(all[3], codes, rows, width), floats) << width;
    for (size_t row = 0; row < rows; ++row) {
      double most = 0;
      for (size_t i = 0; i < width; ++i) {
        most = std::max(most, std::fabs(static_cast<double>(x[row * width + i])));
      }
      for (size_t i = 0; i < width; ++i) {
        const double got = FloatAt(floats, row * (floats.size() / rows) + i * sizeof(float));
        EXPECT_NEAR(got, x[row * width + i], most / 127 * 0.50001) << width << " at " << i;
      }
    }
  }
}

TEST(TokenCodes, NotANumberAndInfinityReachTheirRowOnly) {
  const size_t width = 9;
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    std::vector<float> x(3 * width, 0.5F);
    x[width + 4] = bad;
    const auto all = TokenCodesKernels();
    for (const size_t vector : {0, 1}) {
      const auto codes = Recode(all[vector], BytesOf(x), 3, width);
      const auto floats = Recode(all[2 + vector], codes, 3, width);
      for (size_t row = 0; row < 3; ++row) {
        for (size_t i = 0; i < width; ++i) {
          const float got = FloatAt(floats, row * (floats.size() / 3) + i * sizeof(float));
          EXPECT_EQ(std::isnan(got), row == 1) << bad << " at " << row << ", " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace requant
