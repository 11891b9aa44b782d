#include "numeric/rounding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "numeric/affine.h"

namespace requant {
namespace {

TEST(RoundTo, TiesByHand) {
  const double x[] = {-2.5, -1.5, -0.5, 0.5, 1.5, 2.5};
  const struct {
    RoundingPolicy policy;
    double expected[6];
  } rows[] = {
      {RoundingPolicy::kHalfEven, {-2, -2, 0, 0, 2, 2}},
      {RoundingPolicy::kHalfUp, {-2, -1, 0, 1, 2, 3}},
      {RoundingPolicy::kHalfDown, {-3, -2, -1, 0, 1, 2}},
      {RoundingPolicy::kHalfTowardsZero, {-2, -1, 0, 0, 1, 2}},
      {RoundingPolicy::kHalfFarFromZero, {-3, -2, -1, 1, 2, 3}},
      {RoundingPolicy::kUp, {-2, -1, 0, 1, 2, 3}},
  };
  for (const auto& row : rows) {
    for (int i = 0; i < 6; ++i) {
      EXPECT_EQ(RoundTo(x[i], row.policy), row.expected[i])
          << RoundingPolicyName(row.policy) << " " << x[i];
      EXPECT_EQ(RoundTo(static_cast<float>(x[i]), row.policy), row.expected[i]);
    }
  }
}

TEST(RoundTo, NearestOtherwise) {
  for (const RoundingPolicy policy :
       {RoundingPolicy::kHalfEven, RoundingPolicy::kHalfUp, RoundingPolicy::kHalfDown,
        RoundingPolicy::kHalfTowardsZero, RoundingPolicy::kHalfFarFromZero}) {
    EXPECT_EQ(RoundTo(1.25, policy), 1);
    EXPECT_EQ(RoundTo(-1.75, policy), -2);
    EXPECT_EQ(RoundTo(7.0f, policy), 7);
    // The largest float below one half: adding 0.5 to it would give 1.
    EXPECT_EQ(RoundTo(std::nextafter(0.5f, 0.0f), policy), 0);
    EXPECT_EQ(RoundTo(std::nextafter(-0.5f, 0.0f), policy), 0);
    EXPECT_EQ(RoundTo(8388609.0f, policy), 8388609.0f);
  }
  EXPECT_EQ(RoundTo(1.25, RoundingPolicy::kUp), 2);
  EXPECT_TRUE(std::isnan(RoundTo(std::nanf(""), RoundingPolicy::kHalfUp)));
}

TEST(RoundingPolicy, NamesRoundTrip) {
  RoundingPolicy policy = RoundingPolicy::kUp;
  EXPECT_TRUE(ParseName("HALF_FAR_FROM_ZERO", &policy));
  EXPECT_EQ(policy, RoundingPolicy::kHalfFarFromZero);
  EXPECT_FALSE(ParseName("half_even", &policy));
}

TEST(Affine, QuantizeByHand) {
  const QuantizedRange u8 = RangeOfBits(8, false), i4 = RangeOfBits(4, true);
  EXPECT_EQ(u8.max, 255);
  EXPECT_EQ(i4.min, -8);
  EXPECT_EQ(i4.max, 7);
  EXPECT_EQ(QuantizeLinear(1.0f, 2.0f, 128, u8), 128);  // 0.5 ties to even
  EXPECT_EQ(QuantizeLinear(3.0f, 2.0f, 128, u8), 130);  // 1.5
  EXPECT_EQ(QuantizeLinear(1.0f, 2.0f, 128, u8, RoundingPolicy::kHalfUp), 129);
  EXPECT_EQ(QuantizeLinear(1e30f, 2.0f, 128, u8), 255);
  EXPECT_EQ(QuantizeLinear(-1e30f, 2.0f, 128, u8), 0);
  EXPECT_EQ(QuantizeLinear(std::numeric_limits<float>::infinity(), 1.0f, 3, i4), 7);
  EXPECT_EQ(QuantizeLinear(std::nanf(""), 1.0f, 3, i4), 3);
  EXPECT_EQ(DequantizeLinear(3, 0.5f, 7), -2.0f);
}

TEST(Affine, PowersOfTwo) {
  EXPECT_EQ(PowerOfTwoScale(0.3f), 0.5f);
  EXPECT_EQ(PowerOfTwoScale(0.25f), 0.25f);
  EXPECT_EQ(CambriconScale(1.5, 8), std::ldexp(1.0f, -6));
  EXPECT_EQ(CambriconScale(0.99, 8), std::ldexp(1.0f, -7));
}

}  // namespace
}  // namespace requant
