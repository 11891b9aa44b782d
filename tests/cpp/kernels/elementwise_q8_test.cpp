#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/error.h"
#include "kernels/elementwise/table.h"
#include "kernels/elementwise_forms.h"
#include "numeric/qadd.h"
#include "numeric/requantize_prepare.h"

namespace requant {
namespace {

using testing::Form;
using testing::kCanary;
using testing::kForms;
using testing::MakeRun;
using testing::Random;
using testing::Run;

/// Sets zero points and clamps at their extremes, and random signedness.
template <typename Params>
void FillBytes(Random& random, Params& p) {
  const auto zero = [&](int32_t is_signed) {
    const int low = is_signed ? -128 : 0;
    const int pick = random.Int(0, 3);
    return pick == 0 ? low : (pick == 1 ? low + 255 : random.Int(low, low + 255));
  };
  p.a_signed = random.Int(0, 1);
  p.b_signed = random.Int(0, 1);
  p.out_signed = random.Int(0, 1);
  p.a_zero = zero(p.a_signed);
  p.b_zero = zero(p.b_signed);
  p.out_zero = zero(p.out_signed);
  p.lo = p.out_signed ? -128 : 0;
  p.hi = p.lo + 255;
  if (random.Int(0, 2) == 0) {
    p.lo = random.Int(p.lo, p.hi);
    p.hi = random.Int(p.lo, p.hi);
  }
}

std::vector<uint8_t> CodesIn(Random& random, size_t count, QAddRange range) {
  std::vector<uint8_t> codes(count);
  for (uint8_t& code : codes) code = static_cast<uint8_t>(random.Int(range.lo, range.hi));
  return codes;
}

/// Checks a row against the oracle on codes of whole bytes, or of the given ranges.
template <typename Params, typename Kernel, typename Judge>
void ExpectByteRows(const Kernel& kernel, Random& random, Run<Params>& run, Judge&& judge,
                    QAddRange a_codes = {0, 255}, QAddRange b_codes = {0, 255}) {
  Params& p = run.params;
  const std::vector<uint8_t> a = CodesIn(random, run.a_size, a_codes);
  const std::vector<uint8_t> b = CodesIn(random, run.b_size, b_codes);
  std::vector<uint8_t> out(run.out_size, kCanary);
  std::vector<uint8_t> expected = out;
  p.a = a.data();
  p.b = b.data();
  p.out = out.data();
  kernel.run(&p);
  const auto value = [](uint8_t byte, int32_t is_signed) {
    return is_signed ? static_cast<int8_t>(byte) : static_cast<int32_t>(byte);
  };
  for (size_t r = 0; r < p.rows; ++r) {
    for (size_t c = 0; c < p.cols; ++c) {
      const int32_t qa = value(a[r * p.a_row_stride + c * p.a_step], p.a_signed) - p.a_zero;
      const int32_t qb = value(b[r * p.b_row_stride + c * p.b_step], p.b_signed) - p.b_zero;
      expected[r * p.out_row_stride + c] = static_cast<uint8_t>(judge(qa, qb));
    }
  }
  ASSERT_EQ(expected, out) << kernel.name;
}

/// Calls body(kernel, run, round) with random bytes for every kernel and every form, `rounds`
/// times.
template <typename Params, typename Kernels, typename Body>
void ForEachRun(Random& random, const Kernels& kernels, int rounds, Body&& body) {
  for (const auto& kernel : kernels) {
    for (const Form& form : kForms) {
      for (int round = 0; round < rounds; ++round) {
        SCOPED_TRACE(form.name);
        auto run = MakeRun<Params>(random, form);
        FillBytes(random, run.params);
        body(kernel, run, round);
      }
    }
  }
}

void SetMultipliers(QAddParams& p, const QAddMultipliers& m) {
  p.a_multiplier = m.a;
  p.b_multiplier = m.b;
  p.shift = m.shift;
}

TEST(QAdd, EveryRowGivesTheNormativeIntegers) {
  Random random(3);
  ForEachRun<QAddParams>(
      random, QAddKernels(), 60,
      [&](const QAddKernel& kernel, requant::Run<QAddParams>& run, int round) {
        QAddParams& p = run.params;
        p.a_scale = std::exp(random.Float(-8, 3));
        p.b_scale = std::exp(random.Float(-8, 3)) * (round % 4 == 0 ? -1.0f : 1.0f);
        p.out_scale = std::exp(random.Float(-8, 3));
        if (round % 5 == 0) p.a_scale = p.out_scale = std::fabs(p.b_scale);  // ties are frequent
        if (round % 10 == 0) p.out_scale *= 2;
        const auto m = MakeQAddMultipliers(static_cast<double>(p.a_scale) / p.out_scale,
                                           static_cast<double>(p.b_scale) / p.out_scale);
        SetMultipliers(p, m);
        ExpectByteRows(kernel, random, run, [&](int32_t a, int32_t b) {
          if (kernel.mode == QBinaryMode::kFixed) {
            return QAddFixed(a, b, m, p.out_zero, p.lo, p.hi);
          }
          return QAddFloat(a, b, p.a_scale, p.b_scale, p.out_scale, p.out_zero, p.lo, p.hi);
        });
      });
}

// Sums of multipliers close to the bound below which vector kernels multiply 16-bit pairs.
TEST(QAdd, FactorsAtTheBoundOfPairs) {
  constexpr int32_t kMost = (1 << 21) - 1;
  Random random(12);
  auto run = requant::Run<QAddParams>{};
  run.a_size = run.b_size = run.out_size = 65536;
  QAddParams& p = run.params;
  p = {};
  p.rows = 1;
  p.cols = 65536;
  p.a_step = p.b_step = 1;
  p.lo = -128;
  p.hi = 127;
  p.out_signed = 1;
  for (const QAddKernel& kernel : QAddKernels()) {
    if (kernel.mode != QBinaryMode::kFixed) continue;
    for (int32_t shift = 18; shift <= 23; ++shift) {
      const int32_t bound = shift <= 20 ? (1 << 23) >> (22 - shift) : 2 * kMost + 1;
      for (const int32_t a : {kMost, bound / 2, 12345, 1, 0}) {
        for (const int32_t more : {-1, 0, 1}) {
          const int32_t b = std::min(std::max(bound - a + more, -kMost), kMost);
          p.a_multiplier = std::min(a, kMost) * (random.Int(0, 1) * 2 - 1);
          p.b_multiplier = b * (random.Int(0, 1) * 2 - 1);
          p.shift = shift;
          p.a_signed = random.Int(0, 1);
          p.b_signed = random.Int(0, 1);
          p.a_zero = (p.a_signed ? -128 : 0) + 255 * random.Int(0, 1);
          p.b_zero = (p.b_signed ? -128 : 0) + 255 * random.Int(0, 1);
          p.out_zero = random.Int(0, 1) * 255 - 128;
          const QAddMultipliers m = {p.a_multiplier, p.b_multiplier, shift};
          ExpectByteRows(kernel, random, run, [&](int32_t x, int32_t y) {
            return QAddFixed(x, y, m, p.out_zero, p.lo, p.hi);
          });
        }
      }
    }
  }
}

TEST(QAdd, FewCodesAreAddedIn16BitsWithTheSameIntegers) {
  Random random(11);
  int found = 0, tried = 0;
  ForEachRun<QAddParams>(
      random, QAddKernels(), 100,
      [&](const QAddKernel& kernel, requant::Run<QAddParams>& run, int round) {
        if (kernel.mode != QBinaryMode::kFixed) return;
        QAddParams& p = run.params;
        // 2 to 32 codes for each operand, anywhere in a byte, with zero points inside of the range
        // or outside.
        const auto codes = [&](int32_t is_signed) {
          const int32_t least = is_signed ? -128 : 0, count = 1 << random.Int(1, 5);
          const int32_t lo = least + random.Int(0, 256 - count);
          return QAddRange{lo, lo + count - 1};
        };
        const QAddRange a = codes(p.a_signed), b = codes(p.b_signed);
        const float ratio_a = std::exp(random.Float(-4, 1));
        const float ratio_b = std::exp(random.Float(-4, 1)) * (round % 4 == 0 ? -1.0f : 1.0f);
        const auto m = MakeQAddMultipliers(ratio_a, ratio_b);
        SetMultipliers(p, m);
        p.narrow = MakeQAddNarrow(m, {a.lo - p.a_zero, a.hi - p.a_zero},
                                  {b.lo - p.b_zero, b.hi - p.b_zero}, p.out_zero, p.lo, p.hi);
        ++tried;
        found += p.narrow.shift != 0 ? 1 : 0;
        ExpectByteRows(
            kernel, random, run,
            [&](int32_t x, int32_t y) { return QAddFixed(x, y, m, p.out_zero, p.lo, p.hi); }, a, b);
      });
  EXPECT_GT(found, tried / 2);
}

/// QAddNarrow by its definition, for codes without their zero points.
int32_t NarrowSum(const QAddNarrow& narrow, int32_t a, int32_t b, int32_t lo, int32_t hi) {
  const int32_t sum = std::clamp(a * narrow.a + b * narrow.b + narrow.bias, -32768, 32767);
  const int32_t rounded = (sum + (1 << (narrow.shift - 1))) >> narrow.shift;
  return std::clamp(rounded + narrow.middle, lo, hi);
}

TEST(QAdd, SimpleFactorsFit16BitsForAllCodes) {
  Random random(21);
  for (int32_t shift = 1; shift <= kSimpleShift; ++shift) {
    for (int round = 0; round < 6; ++round) {
      const int32_t factor_a = round == 0 ? kSimpleFactor : random.Int(0, kSimpleFactor);
      const int32_t factor_b = round < 2 ? kSimpleFactor : random.Int(0, kSimpleFactor);
      const auto m =
          MakeQAddMultipliers(std::ldexp(factor_a, -shift), std::ldexp(factor_b, -shift));
      for (const int32_t zero : {-128, -3, 0, 127}) {
        const QAddNarrow form = MakeQAddSimple(m, zero);
        ASSERT_NE(form.shift, 0) << factor_a << " " << factor_b << " " << shift;
        for (int32_t a = -255; a <= 255; ++a) {
          for (int32_t b = -255; b <= 255; ++b) {
            ASSERT_EQ(NarrowSum(form, a, b, -128, 127), QAddFixed(a, b, m, zero, -128, 127));
          }
        }
      }
    }
  }
}

TEST(QAdd, OtherFactorsHaveNoSimpleForm) {
  const auto form = [](double a, double b) {
    return MakeQAddSimple(MakeQAddMultipliers(a, b), 0).shift;
  };
  EXPECT_NE(form(127.0 / 128, 1.0 / 128), 0);
  EXPECT_NE(form(63, 1), 0);
  EXPECT_EQ(form(129.0 / 128, 0.5), 0);  // eight bits
  EXPECT_EQ(form(0.731, 0.5), 0);
  EXPECT_EQ(form(1.0 / 256, 1), 0);  // a shift of 8 could saturate too early
  EXPECT_EQ(form(0.5, -0.5), 0);
}

TEST(QAdd, SimpleFactorsGiveTheNormativeIntegers) {
  Random random(22);
  ForEachRun<QAddParams>(
      random, QAddKernels(), 100,
      [&](const QAddKernel& kernel, requant::Run<QAddParams>& run, int /*round*/) {
        if (kernel.mode != QBinaryMode::kFixed) return;
        QAddParams& p = run.params;
        const int32_t shift = random.Int(1, kSimpleShift);
        const auto ratio = [&] {
          const int32_t pick = random.Int(0, 3);
          return std::ldexp(pick == 0 ? kSimpleFactor : random.Int(0, kSimpleFactor), -shift);
        };
        const auto m = MakeQAddMultipliers(ratio(), ratio());
        SetMultipliers(p, m);
        p.narrow = MakeQAddSimple(m, p.out_zero);
        ASSERT_NE(p.narrow.shift, 0);
        ExpectByteRows(kernel, random, run, [&](int32_t x, int32_t y) {
          return QAddFixed(x, y, m, p.out_zero, p.lo, p.hi);
        });
      });
}

TEST(QAdd, WhatHasNoExactFormIn16BitsHasNone) {
  const auto form = [](double a, double b, QAddRange range) {
    return MakeQAddNarrow(MakeQAddMultipliers(a, b), range, range, 0, -128, 127).shift;
  };
  EXPECT_NE(form(1.0, 1.0, {-8, 7}), 0);
  EXPECT_NE(form(0.731, 0.402, {-8, 7}), 0);
  EXPECT_EQ(form(0.731, 0.402, {-128, 127}), 0);  // too many pairs
  EXPECT_EQ(form(0.731, 0.402, {7, -8}), 0);      // an empty range
  EXPECT_EQ(form(40000.0, 0.402, {-8, 7}), 0);    // beyond 16 bits
}

TEST(QMul, EveryRowGivesTheNormativeIntegers) {
  Random random(4);
  ForEachRun<QMulParams>(random, QMulKernels(), 60,
                         [&](const QMulKernel& kernel, requant::Run<QMulParams>& run, int round) {
                           QMulParams& p = run.params;
                           double factor = std::exp2(random.Float(-20, 2));
                           if (round % 5 == 0)
                             factor = std::ldexp(1.0, random.Int(-10, 0));  // ties are frequent
                           if (round % 30 == 0) factor = 1e6;  // outside of the vector form
                           p.multiplier = MakeFixedMultiplier(factor);
                           p.scale = static_cast<float>(factor);
                           ExpectByteRows(kernel, random, run, [&](int32_t a, int32_t b) {
                             if (kernel.mode == QBinaryMode::kFixed) {
                               return QMulFixed(a, b, p.multiplier, p.out_zero, p.lo, p.hi);
                             }
                             return QMulFloat(a, b, p.scale, p.out_zero, p.lo, p.hi);
                           });
                         });
}

TEST(QAdd, HandValuesAndTies) {
  // Halves: (a + b) / 2 with ties rounded up, below zero as well.
  const QAddMultipliers half = MakeQAddMultipliers(0.5, 0.5);
  EXPECT_EQ(QAddFixed(1, 2, half, 0, -128, 127), 2);     // 1.5
  EXPECT_EQ(QAddFixed(-1, -2, half, 0, -128, 127), -1);  // -1.5
  EXPECT_EQ(QAddFixed(0, 1, half, 10, 0, 255), 11);      // 0.5 + 10
  EXPECT_EQ(QAddFixed(0, -1, half, 10, 0, 255), 10);     // -0.5 + 10
  EXPECT_EQ(QAddFixed(255, 255, MakeQAddMultipliers(1, 1), 0, 0, 255), 255);
  EXPECT_EQ(QAddFixed(-255, 10, MakeQAddMultipliers(1, 1), 0, -128, 127), -128);
  // Half to even AFTER adding the zero point: 0.5 + 10 -> 10, 0.5 + 11 -> 12.
  EXPECT_EQ(QAddFloat(0, 1, 0.5f, 0.5f, 1.0f, 10, 0, 255), 10);
  EXPECT_EQ(QAddFloat(0, 1, 0.5f, 0.5f, 1.0f, 11, 0, 255), 12);
  EXPECT_EQ(QAddFloat(5, 3, 1.0f, -1.0f, 1.0f, 0, -128, 127), 2);  // subtraction
  EXPECT_EQ(QAddFloat(200, 200, 1.0f, 1.0f, 0.001f, 0, 0, 255), 255);
}

TEST(QAdd, MultipliersKeepTheirBounds) {
  const QAddMultipliers one = MakeQAddMultipliers(1, -1);
  EXPECT_EQ(one.a, 1 << 20);
  EXPECT_EQ(one.b, -(1 << 20));
  EXPECT_EQ(one.shift, 20);
  Random random(5);
  for (int i = 0; i < 2000; ++i) {
    const double a = std::exp2(random.Float(-40, 19));
    const double b = i % 7 == 0 ? std::nextafter(2 * a, 0) : std::exp2(random.Float(-40, 19));
    if (b >= 1048576) continue;
    const QAddMultipliers m = MakeQAddMultipliers(a, b);
    EXPECT_LT(std::abs(m.a), 1 << 21);
    EXPECT_LT(std::abs(m.b), 1 << 21);
    EXPECT_GE(m.shift, 1);
    EXPECT_LE(m.shift, 30);
    // The shift is as large as the bound allows.
    EXPECT_TRUE(m.shift == 30 || m.a >= 1 << 19 || m.b >= 1 << 19);
    EXPECT_LE(std::fabs(std::ldexp(m.a, -m.shift) - a), std::ldexp(0.5, -m.shift));
    EXPECT_LE(std::fabs(std::ldexp(m.b, -m.shift) - b), std::ldexp(0.5, -m.shift));
  }
  EXPECT_THROW(MakeQAddMultipliers(1 << 20, 1), Error);
  EXPECT_THROW(MakeQAddMultipliers(std::nan(""), 1), Error);
}

TEST(QMul, HandValuesAndTies) {
  const FixedMultiplier half = MakeFixedMultiplier(0.5);
  EXPECT_EQ(QMulFixed(1, 3, half, 0, -128, 127), 2);    // 1.5
  EXPECT_EQ(QMulFixed(-1, 3, half, 0, -128, 127), -1);  // -1.5
  EXPECT_EQ(QMulFixed(-255, 255, half, 0, -128, 127), -128);
  EXPECT_EQ(QMulFloat(1, 3, 0.5f, 1, -128, 127), 3);  // half-even(1.5) + 1
  EXPECT_EQ(QMulFloat(1, 5, 0.5f, 1, -128, 127), 3);  // half-even(2.5) + 1
  EXPECT_EQ(QMulFloat(-1, 5, 0.5f, 0, -128, 127), -2);
  EXPECT_EQ(QMulFloat(255, 255, 1.0f, 0, 0, 255), 255);
}

}  // namespace
}  // namespace requant
