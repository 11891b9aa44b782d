// Operands of attention as bytes: the rows of each function bit for bit, and the formulas in
// double.
#include "kernels/attention_codes/table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <random>
#include <vector>

namespace requant {
namespace {

struct Coded {
  std::vector<uint8_t> out, low;
  std::vector<float> factors;
};

/// Runs a kernel on rows that lie `gap` apart; bytes behind a row must stay 7.
Coded Code(const AttentionCodesKernel& kernel, const std::vector<float>& x, size_t rows,
           size_t columns, const float* offset = nullptr, bool is_signed = false) {
  const size_t filled = (columns + 3) / 4 * 4, gap = 8;
  Coded coded{std::vector<uint8_t>(rows * (filled + gap), 7),
              std::vector<uint8_t>(rows * (filled + gap), 7), std::vector<float>(rows, -1)};
  AttentionCodesParams call;
  call.in = x.data();
  call.out = coded.out.data();
  call.low = coded.low.data();
  call.factors = coded.factors.data();
  call.offset = offset;
  call.rows = rows;
  call.columns = columns;
  call.in_row_stride = x.size() / rows;
  call.out_row_stride = filled + gap;
  call.is_signed = is_signed ? 1 : 0;
  kernel.run(&call);
  for (size_t i = 0; i < coded.out.size(); ++i) {
    if (i % (filled + gap) < filled) continue;
    EXPECT_EQ(coded.out[i], 7) << kernel.name << " wrote behind its row";
    EXPECT_EQ(coded.low[i], 7) << kernel.name << " wrote behind its row";
  }
  return coded;
}

void ExpectSame(const Coded& a, const Coded& b) {
  ASSERT_EQ(a.out, b.out);
  ASSERT_EQ(a.low, b.low);
  for (size_t i = 0; i < a.factors.size(); ++i) {
    if (std::isnan(a.factors[i]) && std::isnan(b.factors[i])) continue;
    ASSERT_EQ(a.factors[i], b.factors[i]);
  }
}

TEST(AttentionCodes, TokensAreTheFormula) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  const auto all = AttentionCodesKernels();
  for (size_t width = 1; width < 70; ++width) {
    const size_t rows = 1 + width % 5, stride = width + width % 3;
    std::vector<float> x(rows * stride), offset(width);
    for (float& value : x) value = normal(random) * (width % 3 == 0 ? 1e30F : 1);
    for (float& value : offset) value = normal(random);
    std::fill_n(x.begin(), width % 2 == 0 ? width : 0, 0.0F);
    const bool is_signed = width % 4 < 2;
    for (const float* less : std::initializer_list<const float*>{nullptr, offset.data()}) {
      const Coded coded = Code(all[0], x, rows, width, less, is_signed);
      ExpectSame(Code(all[1], x, rows, width, less, is_signed), coded);
      for (size_t row = 0; row < rows; ++row) {
        const auto value = [&](size_t i) { return x[row * stride + i] - (less ? less[i] : 0.0F); };
        double most = 0;
        for (size_t i = 0; i < width; ++i) most = std::max(most, std::fabs(double{value(i)}));
        for (size_t i = 0; i < (width + 3) / 4 * 4; ++i) {
          const uint8_t byte = coded.out[row * coded.out.size() / rows + i];
          const int code = is_signed ? static_cast<int8_t>(byte) : byte - 128;
          EXPECT_LE(std::abs(code), 127);
          const double wanted = i < width ? value(i) : 0;
          EXPECT_NEAR(code * double{coded.factors[row]}, wanted, most / 127 * 0.50001) << width;
        }
      }
    }
  }
}

TEST(AttentionCodes, SharesAreTheSoftmax) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  const auto all = AttentionCodesKernels();
  for (size_t columns = 1; columns < 90; ++columns) {
    const size_t rows = 1 + columns % 3, stride = columns + columns % 5;
    std::vector<float> x(rows * stride);
    for (float& value : x) value = normal(random) * (columns % 2 == 0 ? 1.0F : 20.0F);
    if (columns % 4 == 3) x[columns / 2] = -INFINITY;
    const Coded coded = Code(all[2], x, rows, columns);
    ExpectSame(Code(all[3], x, rows, columns), coded);
    for (size_t row = 0; row < rows; ++row) {
      const float* in = x.data() + row * stride;
      const double most = *std::max_element(in, in + columns);
      double sum = 0;
      for (size_t i = 0; i < columns; ++i) sum += std::exp(in[i] - most);
      const size_t at = row * coded.out.size() / rows;
      int64_t shares = 0;
      for (size_t i = 0; i < (columns + 3) / 4 * 4; ++i) {
        const int share = coded.out[at + i] * 256 + coded.low[at + i];
        shares += share;
        const double wanted = i < columns ? std::exp(in[i] - most) : 0;
        // Half a step, and the polynomial's error.
        EXPECT_NEAR(share, 65535 * wanted, 0.5 + 65535 * wanted * 4e-6) << columns;
        EXPECT_NEAR(share * double{coded.factors[row]}, wanted / sum,
                    static_cast<double>(columns) * 1e-5);
      }
      EXPECT_EQ(coded.factors[row], 1.0F / static_cast<float>(shares));
    }
  }
}

TEST(AttentionCodes, WhatIsNotFiniteReachesItsRowOnly) {
  const auto all = AttentionCodesKernels();
  const size_t columns = 21;
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    std::vector<float> x(3 * columns, 0.5F);
    x[columns + 17] = bad;
    for (size_t i = 0; i < all.size(); i += 2) {
      const bool tokens = all[i].op == AttentionCodesOp::kTokens;
      const Coded coded = Code(all[i], x, 3, columns);
      ExpectSame(Code(all[i + 1], x, 3, columns), coded);
      for (const size_t row : {0, 2}) EXPECT_TRUE(std::isfinite(coded.factors[row]));
      // A key without a share is what a score of -infinity means.
      EXPECT_EQ(std::isfinite(coded.factors[1]), !tokens && bad == -INFINITY) << bad;
    }
  }
  const std::vector<float> hidden(columns, -INFINITY);
  for (const size_t row : {2, 3}) {
    const Coded coded = Code(all[row], hidden, 1, columns);
    EXPECT_EQ(coded.factors[0], 0);
    for (size_t i = 0; i < columns; ++i) EXPECT_EQ(coded.out[i] + coded.low[i], 0);
  }
}

}  // namespace
}  // namespace requant
