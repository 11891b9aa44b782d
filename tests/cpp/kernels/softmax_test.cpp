#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/random_data.h"
#include "kernels/softmax/log.h"
#include "kernels/softmax/table.h"
#include "kernels/transcendental.h"

namespace requant {
namespace {

using testing::kCanaryF32;
using testing::Random;

float Exp(float x) { return transcendental::Exp(ScalarLanes(), x); }

std::vector<float> RunRow(const SoftmaxF32Kernel& kernel, const std::vector<float>& in) {
  std::vector<float> out(in.size() + 8, kCanaryF32);
  const SoftmaxF32Params p{in.data(), out.data(), 1, in.size(), in.size(), in.size()};
  kernel.run(&p);
  for (size_t i = in.size(); i < out.size(); ++i) EXPECT_EQ(out[i], kCanaryF32);
  out.resize(in.size());
  return out;
}

TEST(Softmax, ExpIsWithinTwoUlp) {
  double worst = 0;
  for (int i = 0; i <= 400000; ++i) {
    const float x = -87.3f * static_cast<float>(i) / 400000.0f;
    worst = std::max(worst, testing::UlpError(std::exp(static_cast<double>(x)), Exp(x)));
  }
  EXPECT_LT(worst, 1.5);
  EXPECT_EQ(Exp(0.0f), 1.0f);
  EXPECT_EQ(Exp(-88.0f), 0.0f);
  EXPECT_EQ(Exp(-std::numeric_limits<float>::infinity()), 0.0f);
  EXPECT_TRUE(std::isnan(Exp(NAN)));
}

TEST(Softmax, LogIsAccurate) {
  Random random(1);
  for (int i = 0; i < 10000; ++i) {
    const float x = std::exp(random.Float(0, 30));
    EXPECT_NEAR(softmax::Log(x), std::log(static_cast<double>(x)), 1e-9);
  }
  EXPECT_EQ(softmax::Log(1.0f), 0.0);
}

TEST(Softmax, RowsMatchTheDoubleReferenceAndEachOther) {
  Random random(2);
  for (size_t cols = 1; cols <= 70; ++cols) {
    const std::vector<float> in = random.Floats(cols, -20, 20);
    const double most = *std::max_element(in.begin(), in.end());
    double sum = 0;
    for (float x : in) sum += std::exp(x - most);
    std::vector<float> first[3];
    for (const SoftmaxF32Kernel& kernel : SoftmaxF32Kernels()) {
      SCOPED_TRACE(kernel.name);
      const std::vector<float> out = RunRow(kernel, in);
      const bool log = kernel.op == SoftmaxOp::kLogSoftmax;
      for (size_t i = 0; i < cols; ++i) {
        const double x = in[i] - most;
        if (log) {
          EXPECT_NEAR(out[i], x - std::log(sum), 4e-6);
        } else {
          // Rounding x - max to float adds an error of half an ulp of x, relative in the result.
          // (Each of two fast exponentials adds 3e-6; see numeric/fast_math.h.)
          const double approximation = kernel.op == SoftmaxOp::kFastSoftmax ? 7e-6 : 4e-7;
          const double relative = approximation - 1.2e-7 * x;
          EXPECT_NEAR(out[i], std::exp(x) / sum, relative * std::exp(x) / sum);
        }
      }
      std::vector<float>& other = first[static_cast<int>(kernel.op)];
      if (other.empty()) {
        other = out;
      } else {
        testing::ExpectSameBits(other, out);
      }
    }
  }
}

TEST(Softmax, SpecialValues) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const SoftmaxF32Kernel& kernel : SoftmaxF32Kernels()) {
    SCOPED_TRACE(kernel.name);
    const bool log = kernel.op == SoftmaxOp::kLogSoftmax;
    for (size_t n : {1, 3, 4, 9}) {
      for (size_t at = 0; at < n; ++at) {
        std::vector<float> in(n, 1.0f);
        in[at] = NAN;
        for (float x : RunRow(kernel, in)) EXPECT_TRUE(std::isnan(x));
        in[at] = infinity;
        EXPECT_TRUE(std::isnan(RunRow(kernel, in)[at]));
        if (n == 1) continue;
        in[at] = -infinity;
        EXPECT_EQ(RunRow(kernel, in)[at], log ? -infinity : 0.0f);
      }
      for (float x : RunRow(kernel, std::vector<float>(n, -infinity))) {
        EXPECT_TRUE(std::isnan(x));
      }
      // Large values must not overflow.
      const float expected = 1.0f / static_cast<float>(n);
      for (float x : RunRow(kernel, std::vector<float>(n, 3e38f))) {
        EXPECT_NEAR(log ? std::exp(x) : x, expected, 1e-6);
      }
    }
  }
}

TEST(Softmax, StridesAndInPlace) {
  Random random(3);
  for (const SoftmaxF32Kernel& kernel : SoftmaxF32Kernels()) {
    std::vector<float> data = random.Floats(3 * 12, -3, 3);
    const std::vector<float> before = data;
    const SoftmaxF32Params p{data.data(), data.data(), 3, 10, 12, 12};
    kernel.run(&p);
    for (size_t r = 0; r < 3; ++r) {
      const auto row = before.begin() + static_cast<ptrdiff_t>(12 * r);
      const std::vector<float> alone = RunRow(kernel, std::vector<float>(row, row + 10));
      for (size_t i = 0; i < 10; ++i) EXPECT_EQ(data[12 * r + i], alone[i]);
      EXPECT_EQ(data[12 * r + 10], before[12 * r + 10]);
    }
  }
}

}  // namespace
}  // namespace requant
