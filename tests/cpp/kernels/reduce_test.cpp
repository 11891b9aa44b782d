#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/str_cat.h"
#include "kernels/reduce/table.h"

namespace requant {
namespace {

TEST(ReduceF32, KernelsAgree) {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> number(-3, 3);
  for (const ReduceF32Op op : {ReduceF32Op::kSum, ReduceF32Op::kL1, ReduceF32Op::kSumSquare,
                               ReduceF32Op::kMax, ReduceF32Op::kMin, ReduceF32Op::kL2}) {
    for (int i = 0; i < 80; ++i) {
      ReduceF32Params params;
      params.op = op;
      params.factor = 0.3F;
      params.outer = 1 + random() % 4;
      params.count = 1 + random() % 70;
      params.inner = i % 3 == 0 ? 1 : 1 + random() % 40;
      std::vector<float> in(params.outer * params.count * params.inner);
      std::generate(in.begin(), in.end(), [&] { return number(random); });
      params.in = in.data();
      std::vector<std::vector<float>> results;
      for (const ReduceF32Kernel& row : ReduceF32Kernels()) {
        results.emplace_back(params.outer * params.inner, 7.0F);
        params.out = results.back().data();
        row.run(&params);
        EXPECT_EQ(results.back(), results.front())
            << row.name << StrCat(": ", params.outer, " x ", params.count, " x ", params.inner);
      }
    }
  }
}

TEST(ReduceF32, NanInfinityAndZeros) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float rows[4][5] = {{1, kNan, 3, 4, 5},
                            {1, 2, 3, 4, kInfinity},
                            {-kInfinity, -2, -3, -4, -5},
                            {-0.0F, 0.0F, -0.0F, -0.0F, 0.0F}};
  for (const ReduceF32Kernel& row : ReduceF32Kernels()) {
    SCOPED_TRACE(row.name);
    for (const bool columns : {false, true}) {
      std::vector<float> in(20);
      for (size_t i = 0; i < 20; ++i) in[columns ? i % 5 * 4 + i / 5 : i] = rows[i / 5][i % 5];
      float most[4], least[4];
      ReduceF32Params params;
      params.in = in.data();
      params.out = most;
      params.outer = columns ? 1 : 4;
      params.count = 5;
      params.inner = columns ? 4 : 1;
      params.op = ReduceF32Op::kMax;
      row.run(&params);
      params.out = least;
      params.op = ReduceF32Op::kMin;
      row.run(&params);
      EXPECT_TRUE(std::isnan(most[0]) && std::isnan(least[0]));
      EXPECT_EQ(most[1], kInfinity);
      EXPECT_EQ(least[1], 1);
      EXPECT_EQ(most[2], -2);
      EXPECT_EQ(least[2], -kInfinity);
      EXPECT_TRUE(most[3] == 0 && !std::signbit(most[3]));
      EXPECT_TRUE(least[3] == 0 && !std::signbit(least[3]));
    }
  }
}

}  // namespace
}  // namespace requant
