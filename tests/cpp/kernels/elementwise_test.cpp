#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "kernels/elementwise/table.h"
#include "kernels/elementwise_forms.h"

namespace requant {
namespace {

using testing::ExpectSameBits;
using testing::Form;
using testing::kCanaryF32;
using testing::kForms;
using testing::MakeRun;
using testing::Random;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

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
    case BinaryF32Op::kMax:
      return a > b || std::isnan(a) ? a : b;
    case BinaryF32Op::kMin:
      return a < b || std::isnan(a) ? a : b;
    case BinaryF32Op::kPRelu:
      return a < 0 ? b * a : a;
    case BinaryF32Op::kCompare:
      break;  // ComparisonsWriteBytes
  }
  return 0;
}

TEST(ElementwiseF32, ComparisonsWriteBytes) {
  Random random(4);
  for (const BinaryF32Kernel& kernel : BinaryF32Kernels()) {
    if (kernel.op != BinaryF32Op::kCompare) continue;
    for (const Form& form : kForms) {
      for (int round = 0; round < 20; ++round) {
        SCOPED_TRACE(std::string(kernel.name) + ", " + form.name);
        auto run = MakeRun<BinaryF32Params>(random, form);
        BinaryF32Params& p = run.params;
        const std::vector<float> a = random.WildFloats(run.a_size);
        std::vector<float> b = random.WildFloats(run.b_size);
        for (size_t i = 0; i < std::min(a.size(), b.size()); i += 3) b[i] = a[i];
        std::vector<uint8_t> out(run.out_size, 77);
        std::vector<uint8_t> expected = out;
        p.a = a.data();
        p.b = b.data();
        p.out = out.data();
        p.greater = -(round & 1);
        p.equal = -(round >> 1 & 1);
        kernel.run(&p);
        for (size_t r = 0; r < p.rows; ++r) {
          for (size_t c = 0; c < p.cols; ++c) {
            const float x = a[r * p.a_row_stride + c * p.a_step];
            const float y = b[r * p.b_row_stride + c * p.b_step];
            expected[r * p.out_row_stride + c] =
                (p.greater != 0 && x > y) || (p.equal != 0 && x == y);
          }
        }
        EXPECT_EQ(expected, out);
      }
    }
  }
}

TEST(ElementwiseF32, RowsMatchDoubleArithmeticAndEachOther) {
  Random random(1);
  for (const BinaryF32Kernel& kernel : BinaryF32Kernels()) {
    if (kernel.op == BinaryF32Op::kCompare) continue;
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
            // The exact operation in double, rounded to float, equals the float operation (double
            // has more than twice the bits: Figueroa, "When is double rounding innocuous?").
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
    // relative to the result, or to 1 if that is larger: the bound of the pass FastMath
    double error;
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

}  // namespace
}  // namespace requant
