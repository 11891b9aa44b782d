#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "base/error.h"
#include "kernels/elementwise/table.h"
#include "kernels/random_data.h"
#include "numeric/qadd.h"
#include "numeric/requantize_prepare.h"

namespace requant {
namespace {

using testing::ExpectSameBits;
using testing::kCanary;
using testing::kCanaryF32;
using testing::Random;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// The broadcasting forms of a run.
struct Form {
  const char* name;
  int a_step, b_step;
  bool a_repeats, b_repeats;  // row stride 0
};
constexpr Form kForms[] = {
    {"equal", 1, 1, false, false},
    {"scalar b", 1, 0, false, true},
    {"scalar a", 0, 1, true, false},
    {"channels last b", 1, 1, false, true},
    {"channels last a", 1, 1, true, false},
    {"channels first b", 1, 0, false, false},
    {"channels first a", 0, 1, false, false},
    {"two scalars", 0, 0, false, true},
};

template <typename Params>
struct Run {
  size_t a_size, b_size, out_size;
  Params params;
};

/// Strides with gaps, sizes 1..70.
template <typename Params>
Run<Params> MakeRun(Random& random, const Form& form) {
  Run<Params> run{};
  Params& p = run.params;
  p.rows = static_cast<size_t>(random.Int(1, 5));
  p.cols = static_cast<size_t>(random.Int(1, 70));
  p.a_step = form.a_step;
  p.b_step = form.b_step;
  const auto stride = [&](int step, bool repeats) -> size_t {
    if (repeats) return 0;
    return (step ? p.cols : 1) + static_cast<size_t>(random.Int(0, 3));
  };
  p.a_row_stride = stride(form.a_step, form.a_repeats);
  p.b_row_stride = stride(form.b_step, form.b_repeats);
  p.out_row_stride = p.cols + static_cast<size_t>(random.Int(0, 3));
  // Exactly as much as the run touches: the sanitizer sees any read beyond.
  run.a_size = (p.rows - 1) * p.a_row_stride + (form.a_step ? p.cols : 1);
  run.b_size = (p.rows - 1) * p.b_row_stride + (form.b_step ? p.cols : 1);
  run.out_size = p.rows * p.out_row_stride + 16;
  return run;
}

double Apply(BinaryF32Op op, double a, double b) {
  switch (op) {
    case BinaryF32Op::kAdd:
      return a + b;
    case BinaryF32Op::kSub:
      return a - b;
    case BinaryF32Op::kMul:
      return a * b;
    case BinaryF32Op::kDiv:
      return a / b;
  }
  return 0;
}

TEST(ElementwiseF32, RowsMatchDoubleArithmeticAndEachOther) {
  Random random(1);
  for (const BinaryF32Kernel& kernel : BinaryF32Kernels()) {
    for (const Form& form : kForms) {
      for (int round = 0; round < 20; ++round) {
        SCOPED_TRACE(std::string(kernel.name) + ", " + form.name);
        auto run = MakeRun<BinaryF32Params>(random, form);
        BinaryF32Params& p = run.params;
        const std::vector<float> a = random.WildFloats(run.a_size);
        const std::vector<float> b = random.WildFloats(run.b_size);
        std::vector<float> out(run.out_size, kCanaryF32);
        std::vector<float> expected = out;
        p.a = a.data();
        p.b = b.data();
        p.out = out.data();
        p.lo = round % 2 ? -3.0f : -kInfinity;
        p.hi = round % 2 ? 6.0f : kInfinity;
        kernel.run(&p);
        for (size_t r = 0; r < p.rows; ++r) {
          for (size_t c = 0; c < p.cols; ++c) {
            // One operation in double, rounded once more to float, is the float operation itself
            // (double has more than twice the bits: Figueroa, "When is double rounding
            // innocuous?").
            float value = static_cast<float>(Apply(kernel.op, a[r * p.a_row_stride + c * p.a_step],
                                                   b[r * p.b_row_stride + c * p.b_step]));
            if (value < p.lo) value = p.lo;
            if (value > p.hi) value = p.hi;
            expected[r * p.out_row_stride + c] = value;
          }
        }
        ExpectSameBits(expected, out);
      }
    }
  }
}

TEST(ElementwiseF32, WorksInPlace) {
  std::vector<float> a(37);
  std::vector<float> b(37, 0.5f);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i);
  BinaryF32Params p{};
  p.a = a.data();
  p.b = b.data();
  p.out = a.data();
  p.rows = 1;
  p.cols = a.size();
  p.a_step = p.b_step = 1;
  p.lo = -kInfinity;
  p.hi = kInfinity;
  rq_add_f32(&p);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i], static_cast<float>(i) + 0.5f);
}

TEST(ElementwiseF32, UnaryRowsAgreeBitForBit) {
  Random random(2);
  const auto kernels = UnaryF32Kernels();
  for (size_t i = 0; i + 1 < kernels.size(); i += 2) {
    ASSERT_EQ(kernels[i].op, kernels[i + 1].op);
    for (size_t n = 0; n <= 40; ++n) {
      SCOPED_TRACE(kernels[i].name);
      const std::vector<float> in = random.WildFloats(n);
      std::vector<float> expected(n + 8, kCanaryF32);
      std::vector<float> actual = expected;
      UnaryF32Params p{in.data(), expected.data(), n, random.Float(-1, 1), random.Float(0, 2)};
      kernels[i].run(&p);
      p.out = actual.data();
      kernels[i + 1].run(&p);
      ExpectSameBits(expected, actual);
      EXPECT_EQ(actual[n], kCanaryF32);
    }
  }
}

float One(UnaryF32Op op, float x, float alpha, float beta) {
  float results[2] = {0, 0};
  int count = 0;
  for (const UnaryF32Kernel& kernel : UnaryF32Kernels()) {
    if (kernel.op != op) continue;
    const UnaryF32Params p{&x, &results[count++], 1, alpha, beta};
    kernel.run(&p);
  }
  EXPECT_EQ(count, 2);
  EXPECT_EQ(testing::BitsOf(results[0]), testing::BitsOf(results[1]));
  return results[1];
}

TEST(ElementwiseF32, FastFunctionsKeepTheirBounds) {
  const struct {
    UnaryF32Op op;
    double (*exact)(double);
    double error;  // of the result, or of 1 where that is larger: what the pass FastMath states
  } functions[] = {
      {UnaryF32Op::kFastExp, [](double x) { return std::exp(x); }, 4e-6},
      {UnaryF32Op::kFastTanh, [](double x) { return std::tanh(x); }, 1e-4},
      {UnaryF32Op::kFastSigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, 5e-5},
      {UnaryF32Op::kFastErf, [](double x) { return std::erf(x); }, 2e-6},
      {UnaryF32Op::kFastGelu, [](double x) { return x / 2 * (1 + std::erf(x / std::sqrt(2.0))); },
       2e-6},
  };
  for (const auto& function : functions) {
    double worst = 0;
    for (float x = -60; x < 60; x += 0.00171f) {
      const double exact = function.exact(x);
      worst = std::max(
          worst, std::fabs(One(function.op, x, 0, 0) - exact) / std::max(1.0, std::fabs(exact)));
    }
    EXPECT_LE(worst, function.error) << static_cast<int>(function.op);
    EXPECT_GE(worst, function.error / 5) << static_cast<int>(function.op);
    EXPECT_TRUE(std::isnan(One(function.op, NAN, 0, 0)));
  }
  EXPECT_EQ(One(UnaryF32Op::kFastExp, -kInfinity, 0, 0), 0);
  EXPECT_LT(One(UnaryF32Op::kFastExp, kInfinity, 0, 0), kInfinity);
  EXPECT_EQ(One(UnaryF32Op::kFastErf, kInfinity, 0, 0), 1);
  EXPECT_NEAR(One(UnaryF32Op::kFastTanh, -kInfinity, 0, 0), -1, 1e-4);
  for (const float alpha : {1.0f, 1.702f}) {
    for (float x = -30; x < 30; x += 0.0371f) {
      const double exact = x / (1 + std::exp(-static_cast<double>(alpha) * x));
      EXPECT_NEAR(One(UnaryF32Op::kQuickGelu, x, alpha, 0), exact, 3e-7 * (1 + std::fabs(exact)));
    }
  }
}

TEST(ElementwiseF32, TranscendentalsAreAccurate) {
  const struct {
    UnaryF32Op op;
    double (*exact)(double);
    double error;  // absolute
  } functions[] = {
      {UnaryF32Op::kSigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, 1.5e-7},
      {UnaryF32Op::kTanh, [](double x) { return std::tanh(x); }, 1.5e-7},
      {UnaryF32Op::kErf, [](double x) { return std::erf(x); }, 4e-7},
      {UnaryF32Op::kGelu, [](double x) { return x / 2 * (1 + std::erf(x / std::sqrt(2.0))); },
       2e-6},
  };
  for (const auto& function : functions) {
    for (float x = -30; x < 30; x += 0.00371f) {
      EXPECT_NEAR(One(function.op, x, 0, 0), function.exact(x), function.error) << x;
    }
    // Near zero the relative error counts.
    for (float x = 1e-6f; x < 0.5f; x *= 1.13f) {
      const double exact = function.exact(x);
      EXPECT_NEAR(One(function.op, x, 0, 0), exact, 3e-7 * exact) << x;
    }
  }
  EXPECT_EQ(One(UnaryF32Op::kSigmoid, -kInfinity, 0, 0), 0);
  EXPECT_EQ(One(UnaryF32Op::kTanh, -kInfinity, 0, 0), -1);
  EXPECT_EQ(One(UnaryF32Op::kErf, kInfinity, 0, 0), 1);
  EXPECT_TRUE(std::isnan(One(UnaryF32Op::kErf, NAN, 0, 0)));
}

TEST(ElementwiseF32, UnaryHandValues) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(One(UnaryF32Op::kClamp, -2, 0, kInfinity), 0);
  EXPECT_EQ(One(UnaryF32Op::kClamp, 7, 0, 6), 6);
  EXPECT_TRUE(std::isnan(One(UnaryF32Op::kClamp, nan, 0, 6)));
  EXPECT_EQ(One(UnaryF32Op::kLeakyRelu, -4, 0.25f, 0), -1);
  EXPECT_EQ(One(UnaryF32Op::kLeakyRelu, 4, 0.25f, 0), 4);
  EXPECT_EQ(One(UnaryF32Op::kHardSigmoid, 1, 0.25f, 0.5f), 0.75f);
  EXPECT_EQ(One(UnaryF32Op::kHardSigmoid, 9, 0.25f, 0.5f), 1);
  EXPECT_EQ(One(UnaryF32Op::kHardSigmoid, -9, 0.25f, 0.5f), 0);
  EXPECT_EQ(One(UnaryF32Op::kHardSwish, -3, 1.0f / 6, 0.5f), 0);
  EXPECT_EQ(One(UnaryF32Op::kHardSwish, 6, 1.0f / 6, 0.5f), 6);
  EXPECT_TRUE(std::isnan(One(UnaryF32Op::kHardSwish, nan, 1.0f / 6, 0.5f)));
  EXPECT_EQ(One(UnaryF32Op::kAbs, -5, 0, 0), 5);
  EXPECT_EQ(One(UnaryF32Op::kNeg, 5, 0, 0), -5);
  EXPECT_EQ(One(UnaryF32Op::kSqrt, 2, 0, 0), std::sqrt(2.0f));
}

/// Zero points and clamps at their extremes, signedness at random.
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

/// On codes of all bytes, or of these ranges.
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

TEST(QAdd, EveryRowGivesTheNormativeIntegers) {
  Random random(3);
  for (const QAddKernel& kernel : QAddKernels()) {
    for (const Form& form : kForms) {
      for (int round = 0; round < 60; ++round) {
        SCOPED_TRACE(form.name);
        auto run = MakeRun<QAddParams>(random, form);
        QAddParams& p = run.params;
        FillBytes(random, p);
        p.a_scale = std::exp(random.Float(-8, 3));
        p.b_scale = std::exp(random.Float(-8, 3)) * (round % 4 == 0 ? -1.0f : 1.0f);
        p.out_scale = std::exp(random.Float(-8, 3));
        if (round % 5 == 0) p.a_scale = p.out_scale = std::fabs(p.b_scale);  // ties abound
        if (round % 10 == 0) p.out_scale *= 2;
        const auto m = MakeQAddMultipliers(static_cast<double>(p.a_scale) / p.out_scale,
                                           static_cast<double>(p.b_scale) / p.out_scale);
        p.a_multiplier = m.a;
        p.b_multiplier = m.b;
        p.shift = m.shift;
        ExpectByteRows(kernel, random, run, [&](int32_t a, int32_t b) {
          if (kernel.mode == QBinaryMode::kFixed) {
            return QAddFixed(a, b, m, p.out_zero, p.lo, p.hi);
          }
          return QAddFloat(a, b, p.a_scale, p.b_scale, p.out_scale, p.out_zero, p.lo, p.hi);
        });
      }
    }
  }
}

// Sums of multipliers around the bound below which vector kernels multiply 16-bit pairs.
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
  for (const QAddKernel& kernel : QAddKernels()) {
    if (kernel.mode != QBinaryMode::kFixed) continue;
    for (const Form& form : kForms) {
      for (int round = 0; round < 100; ++round) {
        SCOPED_TRACE(form.name);
        auto run = MakeRun<QAddParams>(random, form);
        QAddParams& p = run.params;
        FillBytes(random, p);
        // 2 to 32 codes each, anywhere in a byte, and zero points among them or not.
        const auto codes = [&](int32_t is_signed) {
          const int32_t least = is_signed ? -128 : 0, count = 1 << random.Int(1, 5);
          const int32_t lo = least + random.Int(0, 256 - count);
          return QAddRange{lo, lo + count - 1};
        };
        const QAddRange a = codes(p.a_signed), b = codes(p.b_signed);
        const float ratio_a = std::exp(random.Float(-4, 1));
        const float ratio_b = std::exp(random.Float(-4, 1)) * (round % 4 == 0 ? -1.0f : 1.0f);
        const auto m = MakeQAddMultipliers(ratio_a, ratio_b);
        p.a_multiplier = m.a;
        p.b_multiplier = m.b;
        p.shift = m.shift;
        p.narrow = MakeQAddNarrow(m, {a.lo - p.a_zero, a.hi - p.a_zero},
                                  {b.lo - p.b_zero, b.hi - p.b_zero}, p.out_zero, p.lo, p.hi);
        ++tried;
        found += p.narrow.shift != 0 ? 1 : 0;
        ExpectByteRows(
            kernel, random, run,
            [&](int32_t x, int32_t y) { return QAddFixed(x, y, m, p.out_zero, p.lo, p.hi); }, a, b);
      }
    }
  }
  EXPECT_GT(found, tried / 2);
}

/// QAddNarrow as its definition says, for codes without their zero points.
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
  for (const QAddKernel& kernel : QAddKernels()) {
    if (kernel.mode != QBinaryMode::kFixed) continue;
    for (const Form& form : kForms) {
      for (int round = 0; round < 100; ++round) {
        SCOPED_TRACE(form.name);
        auto run = MakeRun<QAddParams>(random, form);
        QAddParams& p = run.params;
        FillBytes(random, p);
        const int32_t shift = random.Int(1, kSimpleShift);
        const auto ratio = [&] {
          const int32_t pick = random.Int(0, 3);
          return std::ldexp(pick == 0 ? kSimpleFactor : random.Int(0, kSimpleFactor), -shift);
        };
        const auto m = MakeQAddMultipliers(ratio(), ratio());
        p.a_multiplier = m.a;
        p.b_multiplier = m.b;
        p.shift = m.shift;
        p.narrow = MakeQAddSimple(m, p.out_zero);
        ASSERT_NE(p.narrow.shift, 0);
        ExpectByteRows(kernel, random, run, [&](int32_t x, int32_t y) {
          return QAddFixed(x, y, m, p.out_zero, p.lo, p.hi);
        });
      }
    }
  }
}

TEST(QAdd, WhatHasNoExactFormIn16BitsHasNone) {
  const auto form = [](double a, double b, QAddRange range) {
    return MakeQAddNarrow(MakeQAddMultipliers(a, b), range, range, 0, -128, 127).shift;
  };
  EXPECT_NE(form(1.0, 1.0, {-8, 7}), 0);
  EXPECT_NE(form(0.731, 0.402, {-8, 7}), 0);
  EXPECT_EQ(form(0.731, 0.402, {-128, 127}), 0);  // too many pairs
  EXPECT_EQ(form(0.731, 0.402, {7, -8}), 0);      // no value at all
  EXPECT_EQ(form(40000.0, 0.402, {-8, 7}), 0);    // beyond 16 bits
}

TEST(QMul, EveryRowGivesTheNormativeIntegers) {
  Random random(4);
  for (const QMulKernel& kernel : QMulKernels()) {
    for (const Form& form : kForms) {
      for (int round = 0; round < 60; ++round) {
        SCOPED_TRACE(form.name);
        auto run = MakeRun<QMulParams>(random, form);
        QMulParams& p = run.params;
        FillBytes(random, p);
        double factor = std::exp2(random.Float(-20, 2));
        if (round % 5 == 0) factor = std::ldexp(1.0, random.Int(-10, 0));  // ties abound
        if (round % 30 == 0) factor = 1e6;                                 // beyond the vector form
        p.multiplier = MakeFixedMultiplier(factor);
        p.scale = static_cast<float>(factor);
        ExpectByteRows(kernel, random, run, [&](int32_t a, int32_t b) {
          if (kernel.mode == QBinaryMode::kFixed) {
            return QMulFixed(a, b, p.multiplier, p.out_zero, p.lo, p.hi);
          }
          return QMulFloat(a, b, p.scale, p.out_zero, p.lo, p.hi);
        });
      }
    }
  }
}

TEST(QAdd, HandValuesAndTies) {
  // Halves: (a + b) / 2 with ties going up, below zero as well.
  const QAddMultipliers half = MakeQAddMultipliers(0.5, 0.5);
  EXPECT_EQ(QAddFixed(1, 2, half, 0, -128, 127), 2);     // 1.5
  EXPECT_EQ(QAddFixed(-1, -2, half, 0, -128, 127), -1);  // -1.5
  EXPECT_EQ(QAddFixed(0, 1, half, 10, 0, 255), 11);      // 0.5 + 10
  EXPECT_EQ(QAddFixed(0, -1, half, 10, 0, 255), 10);     // -0.5 + 10
  EXPECT_EQ(QAddFixed(255, 255, MakeQAddMultipliers(1, 1), 0, 0, 255), 255);
  EXPECT_EQ(QAddFixed(-255, 10, MakeQAddMultipliers(1, 1), 0, -128, 127), -128);
  // Half to even AFTER the zero point: 0.5 + 10 -> 10, 0.5 + 11 -> 12.
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
    // As fine as the bound allows.
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
