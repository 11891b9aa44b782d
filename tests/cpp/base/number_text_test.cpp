#include "base/number_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "base/sort.h"
#include "base/str_cat.h"

namespace requant {
namespace {

TEST(NumberTextTest, WritesLikePrintf) {
  EXPECT_EQ(NumberText(0.1), "0.1");
  EXPECT_EQ(NumberText(-0.0), "-0");
  EXPECT_EQ(NumberText(123456789), "123456789");
  EXPECT_EQ(NumberText(1234567891.0), "1.23456789e+09");
  EXPECT_EQ(NumberText(0.0001), "0.0001");
  EXPECT_EQ(NumberText(0.00001), "1e-05");
  EXPECT_EQ(NumberText(5e-324, 17), "4.9406564584124654e-324");
  EXPECT_EQ(NumberText(NAN), "nan");
  EXPECT_EQ(NumberText(-std::numeric_limits<double>::infinity()), "-inf");
}

TEST(NumberTextTest, SeventeenDigitsBringEveryDoubleBack) {
  std::mt19937_64 random(20);
  for (int i = 0; i < 20000; ++i) {
    const uint64_t bits = random();
    double value;
    std::memcpy(&value, &bits, sizeof value);
    if (!std::isfinite(value)) continue;
    EXPECT_EQ(NumberFromText(NumberText(value, 17)), value);
    const auto single = static_cast<float>(value);
    if (std::isfinite(single)) {
      EXPECT_EQ(static_cast<float>(NumberFromText(NumberText(single))), single);
    }
  }
}

TEST(NumberTextTest, ReadsTheOnesWithoutDigits) {
  EXPECT_EQ(NumberFromText("inf"), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(NumberFromText("nan")));
}

TEST(NumberTextTest, Hex) {
  EXPECT_EQ(HexText(0), "0");
  EXPECT_EQ(HexText(10, 4), "000a");
  EXPECT_EQ(HexText(~uint64_t{0}), "ffffffffffffffff");
}

TEST(StrCatTest, JoinsTextsAndNumbers) {
  EXPECT_EQ(StrCat("dim ", 3, " is ", 0.5, ',', std::string("x"), uint64_t{1} << 63, int64_t{-1}),
            "dim 3 is 0.5,x9223372036854775808-1");
  EXPECT_EQ(StrCat(std::numeric_limits<uint64_t>::max(), true), "184467440737095516151");
}

TEST(StableSortTest, KeepsTheOrderOfEquals) {
  const std::vector<int> keys = {2, 1, 2, 1, 0};
  std::vector<size_t> order = {0, 1, 2, 3, 4};
  StableSort(order, [&](size_t a, size_t b) { return keys[a] < keys[b]; });
  EXPECT_EQ(order, (std::vector<size_t>{4, 1, 3, 0, 2}));
}

}  // namespace
}  // namespace requant
