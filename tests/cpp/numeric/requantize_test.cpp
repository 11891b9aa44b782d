#include "numeric/requantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>

#include "base/error.h"
#include "numeric/requantize_prepare.h"

namespace requant {
namespace {

constexpr int32_t kMin = INT32_MIN, kMax = INT32_MAX;

TEST(MakeFixedMultiplier, DecomposesByHand) {
  // 0.5 = 0.5 * 2^0: M = 2^30, shift 31.
  EXPECT_EQ(MakeFixedMultiplier(0.5).multiplier, 1 << 30);
  EXPECT_EQ(MakeFixedMultiplier(0.5).shift, 31);
  // 1 = 0.5 * 2^1; 0.375 = 0.75 * 2^-1.
  EXPECT_EQ(MakeFixedMultiplier(1.0).multiplier, 1 << 30);
  EXPECT_EQ(MakeFixedMultiplier(1.0).shift, 30);
  EXPECT_EQ(MakeFixedMultiplier(0.375).multiplier, 3 << 29);
  EXPECT_EQ(MakeFixedMultiplier(0.375).shift, 32);
  // Just below 1: the significand rounds to 2^31, which is halved.
  const FixedMultiplier near_one = MakeFixedMultiplier(1.0 - std::ldexp(1.0, -40));
  EXPECT_EQ(near_one.multiplier, 1 << 30);
  EXPECT_EQ(near_one.shift, 30);
  EXPECT_EQ(MakeFixedMultiplier(0.0).multiplier, 0);
}

TEST(MakeFixedMultiplier, EndsOfTheRange) {
  EXPECT_EQ(MakeFixedMultiplier(std::ldexp(1.0, -32)).shift, 62);
  EXPECT_EQ(MakeFixedMultiplier(std::ldexp(1.0, -33)).multiplier, 0);
  EXPECT_EQ(MakeFixedMultiplier(1e-300).multiplier, 0);
  EXPECT_EQ(MakeFixedMultiplier(std::ldexp(1.0, 29)).shift, 1);
  for (const double large : {std::ldexp(1.0, 30), 1e30, 1e300}) {
    EXPECT_EQ(MakeFixedMultiplier(large).multiplier, kMax) << large;
    EXPECT_EQ(MakeFixedMultiplier(large).shift, 1) << large;
  }
  EXPECT_THROW(MakeFixedMultiplier(-0.1), Error);
  EXPECT_THROW(MakeFixedMultiplier(std::nan("")), Error);
  EXPECT_THROW(MakeFixedMultiplier(std::numeric_limits<double>::infinity()), Error);
}

TEST(Requantize, TiesByHand) {
  const FixedMultiplier half = MakeFixedMultiplier(0.5);
  // acc * 0.5 for acc = -5, -3, -1, 1, 3, 5: -2.5, -1.5, -0.5, 0.5, 1.5, 2.5.
  const int32_t acc[] = {-5, -3, -1, 1, 3, 5};
  const int32_t upward[] = {-2, -1, 0, 1, 2, 3};
  const int32_t away[] = {-3, -2, -1, 1, 2, 3};
  const int32_t even[] = {-2, -2, 0, 0, 2, 2};
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(RequantizeUpward(acc[i], half), upward[i]) << acc[i];
    EXPECT_EQ(RequantizeToNearest(acc[i], half), away[i]) << acc[i];
    EXPECT_EQ(RequantizeFloat(acc[i], 0.5f), even[i]) << acc[i];
  }
}

TEST(Requantize, GemmlowpPartsByHand) {
  EXPECT_EQ(SaturatingRoundingDoublingHighMul(kMin, kMin), kMax);
  EXPECT_EQ(SaturatingRoundingDoublingHighMul(1 << 30, 1 << 30), 1 << 29);
  EXPECT_EQ(SaturatingRoundingDoublingHighMul(1, 1 << 30), 1);    // 0.5 rounds up
  EXPECT_EQ(SaturatingRoundingDoublingHighMul(-1, 1 << 30), 0);   // -0.5: nudge, then truncation
  EXPECT_EQ(SaturatingRoundingDoublingHighMul(-3, 1 << 30), -1);  // -1.5
  EXPECT_EQ(RoundingDivideByPot(5, 1), 3);
  EXPECT_EQ(RoundingDivideByPot(-5, 1), -3);
  EXPECT_EQ(RoundingDivideByPot(-4, 3), -1);
  EXPECT_EQ(RoundingDivideByPot(-3, 3), 0);
  EXPECT_EQ(RoundingDivideByPot(7, 0), 7);
  EXPECT_EQ(RoundingDivideByPot(kMin, 31), -1);
  // Two roundings differ from one: the first lifts a product just below one half.
  const FixedMultiplier m = MakeFixedMultiplier(0.25 - 1e-9);
  EXPECT_EQ(RequantizeUpward(2, m), 0);
  EXPECT_EQ(RequantizeGemmlowp(2, m), 1);
}

TEST(Requantize, Saturates) {
  const FixedMultiplier large = MakeFixedMultiplier(1000.0);
  EXPECT_EQ(RequantizeUpward(kMax, large), kMax);
  EXPECT_EQ(RequantizeUpward(kMin, large), kMin);
  EXPECT_EQ(RequantizeToNearest(kMin, large), kMin);
  // 1000 = 1000/1024 * 2^10: the left shift saturates before the multiplication.
  EXPECT_EQ(RequantizeGemmlowp(kMax, large), 2097151999);
  EXPECT_EQ(RequantizeGemmlowp(kMin, large), -2097152000);
  EXPECT_EQ(RequantizeFloat(kMax, 1000.0f), kMax);
  EXPECT_EQ(RequantizeFloat(kMin, 1000.0f), kMin);
  EXPECT_EQ(RequantizeFloat(kMax, 1.0f), kMax);
  EXPECT_EQ(RequantizeFloat(3, std::numeric_limits<float>::quiet_NaN()), 0);
  EXPECT_EQ(RequantizeUpward(kMax, MakeFixedMultiplier(1.0)), kMax);
  EXPECT_EQ(RequantizeUpward(kMin, MakeFixedMultiplier(1.0)), kMin);
}

TEST(Requantize, UpwardIsFloorOfTheExactProductPlusOneHalf) {
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    const int32_t acc = static_cast<int32_t>(random()) >> (random() % 31);
    const double m = std::ldexp(0.5 + random() / 8589934592.0, -static_cast<int>(random() % 24));
    const FixedMultiplier fixed = MakeFixedMultiplier(m);
    const __int128 product = static_cast<__int128>(acc) * fixed.multiplier;
    const __int128 doubled = 2 * product + (static_cast<__int128>(1) << fixed.shift);
    const __int128 divisor = static_cast<__int128>(1) << (fixed.shift + 1);
    __int128 expected = doubled / divisor;
    if (doubled % divisor < 0) --expected;
    ASSERT_EQ(RequantizeUpward(acc, fixed), static_cast<int32_t>(expected)) << acc << " * " << m;
  }
}

TEST(Requantize, ApplyAddsTheZeroPointThenClamps) {
  const PreparedRequantize prepared =
      PrepareRequantize(RequantizeMode::kUpward, {0.5, 0.25}, {1 << 20}, 10, 5, 20);
  const RequantizeParams p = prepared.Params();
  EXPECT_EQ(ApplyRequantize(3, p, 0), 12);   // 1.5 -> 2
  EXPECT_EQ(ApplyRequantize(3, p, 1), 11);   // 0.75 -> 1
  EXPECT_EQ(ApplyRequantize(-20, p, 0), 5);  // 0 clamped
  EXPECT_EQ(ApplyRequantize(1000, p, 1), 20);
  EXPECT_EQ(ApplyRequantize(kMax, p, 0), 20);
  EXPECT_EQ(ApplyRequantize(kMin, p, 0), 5);
}

TEST(PrepareRequantize, PicksTheFastestExactPath) {
  const auto path = [](std::vector<double> m, std::vector<int64_t> bounds) {
    return PrepareRequantize(RequantizeMode::kUpward, m, bounds, 0, -128, 127).Params();
  };
  EXPECT_EQ(path({0.001}, {1 << 20}).path, RequantizePath::kDouble);
  EXPECT_EQ(path({0.001}, {1 << 23}).path, RequantizePath::kShift);
  // Only multipliers with few bits meet ties: acc * 2^-10 does, acc * 0.001 with acc below 2^20
  // does not.
  EXPECT_EQ(path({0.001}, {1 << 20}).exact_tie, nullptr);
  EXPECT_NE(path({0.001, 1.0 / 1024}, {1 << 20}).exact_tie, nullptr);
  EXPECT_EQ(path({0.001}, {int64_t{1} << 31}).path, RequantizePath::kScalar);
  // A dead channel gives 0 for every accumulator; a multiplier near zero does not.
  const std::vector<double> multipliers = {0.001, 1e-9, 0.0, 1e-7};
  const PreparedRequantize prepared =
      PrepareRequantize(RequantizeMode::kUpward, multipliers, {1 << 24}, 0, -128, 127);
  const RequantizeParams p = prepared.Params();
  EXPECT_NE(p.multiplier[0], 0);
  EXPECT_EQ(p.multiplier[1], 0);
  EXPECT_EQ(p.multiplier[2], 0);
  EXPECT_NE(p.multiplier[3], 0);
  EXPECT_EQ(p.headroom[0], 6);  // 2^24 * 2^6 < 2^31
}

/// The codes that the two forms of NarrowRequantize give.
int32_t In16Bits(int32_t acc, const RequantizeParams& p, int32_t c) {
  const NarrowRequantize& n = p.narrow;
  const auto saturated = [](int64_t value) {
    return static_cast<int32_t>(std::clamp<int64_t>(value, INT16_MIN, INT16_MAX));
  };
  const int32_t y = (saturated(int64_t{acc} * n.scale[c]) * n.factor[c] + (1 << 14)) >> 15;
  const int32_t code = (saturated(y + n.bias[c]) + (1 << (n.shift - 1))) >> n.shift;
  return std::clamp(code + p.lo + kNarrowMiddle, p.lo, p.hi);
}
int32_t InFloat(int32_t acc, const RequantizeParams& p, int32_t c, bool fused) {
  const auto x = static_cast<float>(acc);
  const float scale = p.float_scale[c], bias = p.float_bias[c];
  const float product = x * scale;
  const float sum = fused ? std::fma(x, scale, bias) : product + bias;
  return static_cast<int32_t>(std::clamp(std::trunc(sum) + static_cast<float>(p.lo),
                                         static_cast<float>(p.lo), static_cast<float>(p.hi)));
}

TEST(SimpleMultiplier, WholeShares) {
  EXPECT_EQ(SimpleMultiplier(0.5), 0.5);
  EXPECT_EQ(SimpleMultiplier(1.0 / 65536), 1.0 / 65536);
  EXPECT_EQ(SimpleMultiplier(97.0 / 65536), 97.0 / 65536);
  // Within the precision of three float32 scales, and beyond it.
  EXPECT_EQ(SimpleMultiplier(97.0 / 65536 * (1 + std::ldexp(1, -24))), 97.0 / 65536);
  EXPECT_EQ(SimpleMultiplier(97.0 / 65536 * (1 - std::ldexp(1, -24))), 97.0 / 65536);
  EXPECT_EQ(SimpleMultiplier(97.0 / 65536 * (1 + std::ldexp(1, -22))), 0);
  for (const double m : {0.0, -0.25, 0.3 / 65536, 97.5 / 65536, 32769.0 / 65536, 2.0, 1e300}) {
    EXPECT_EQ(SimpleMultiplier(m), 0) << m;
  }
  EXPECT_EQ(SimpleMultiplier(std::nan("")), 0);
  EXPECT_EQ(SimpleMultiplier(std::numeric_limits<double>::infinity()), 0);
}

/// Every accumulator with a code within the clamp or next to it, all ties among them, and
/// accumulators far outside: the fused and the separate product give the code of the integers.
TEST(SimpleMultiplier, CodesInFloat32AreExact) {
  std::mt19937 random(11);
  for (int round = 0; round < 400; ++round) {
    const int32_t k = round < 40 ? round + 1 : 1 + static_cast<int32_t>(random() % 32768);
    const int32_t lo = static_cast<int32_t>(random() % 256) - 128;
    const int32_t hi = lo + 1 + static_cast<int32_t>(random() % 255);
    const int32_t zero = round % 3 == 0   ? lo
                         : round % 3 == 1 ? hi
                                          : lo + static_cast<int32_t>(random() % 256);
    const double m = k / 65536.0 * (1 + (round % 5 - 2) * std::ldexp(1, -24));
    const PreparedRequantize prepared =
        PrepareRequantize(RequantizeMode::kUpward, {m}, {int64_t{1} << 31}, zero, lo, hi);
    const RequantizeParams p = prepared.Params();
    ASSERT_NE(p.float_scale, nullptr);
    ASSERT_EQ(p.float_scale[0], static_cast<float>(k / 65536.0));
    const auto check = [&](int64_t wide) {
      const auto acc = static_cast<int32_t>(std::clamp<int64_t>(wide, kMin, kMax));
      const int64_t exact = ((int64_t{acc} * k + 32768) >> 16) + zero;
      const auto expected = static_cast<int32_t>(std::clamp<int64_t>(exact, lo, hi));
      ASSERT_EQ(ApplyRequantize(acc, p, 0), expected) << acc << " * " << k;
      ASSERT_EQ(InFloat(acc, p, 0, false), expected) << acc << " * " << k;
      ASSERT_EQ(InFloat(acc, p, 0, true), expected) << acc << " * " << k;
    };
    // The smallest accumulator of a code and its neighbors, for all codes and some beyond.
    for (int32_t code = lo - 300; code <= hi + 300; ++code) {
      const int64_t at =
          static_cast<int64_t>(std::ceil((static_cast<double>(code - zero) - 0.5) * 65536 / k));
      for (int64_t acc = at - 2; acc <= at + 2; ++acc) check(acc);
    }
    for (int i = 0; i < 200; ++i) check(static_cast<int32_t>(random()));
    for (const int64_t acc : {int64_t{kMin}, int64_t{kMax}, int64_t{1} << 24, -(int64_t{1} << 24),
                              (int64_t{1} << 24) + 1, int64_t{0}}) {
      check(acc);
    }
    if (HasFatalFailure()) return;
  }
}

TEST(SimpleMultiplier, OtherModesAndClampsHaveNoSuchForm) {
  const auto has = [](RequantizeMode mode, double m, int32_t zero, int32_t lo, int32_t hi) {
    return PrepareRequantize(mode, {m}, {1 << 20}, zero, lo, hi).Params().float_scale != nullptr;
  };
  EXPECT_TRUE(has(RequantizeMode::kUpward, 0.25, 0, -128, 127));
  EXPECT_FALSE(has(RequantizeMode::kUpward, 0.0123, 0, -128, 127));
  EXPECT_FALSE(has(RequantizeMode::kUpward, 0.25, -129, -128, 127));
  EXPECT_FALSE(has(RequantizeMode::kUpward, 0.25, 128, -128, 128));  // 257 codes
  for (const RequantizeMode mode :
       {RequantizeMode::kFloat, RequantizeMode::kToNearest, RequantizeMode::kGemmlowp}) {
    EXPECT_FALSE(has(mode, 0.25, 0, -128, 127));
  }
}

TEST(NarrowRequantize, BothFormsGiveEveryCodeOfEveryAccumulator) {
  std::mt19937 random(7);
  int32_t channels = 0;
  NarrowChannels found;
  for (int round = 0; round < 300; ++round) {
    const RequantizeMode mode = static_cast<RequantizeMode>(round % 4);
    const int32_t lo = static_cast<int32_t>(random() % 256) - 128;
    const int32_t hi = lo + 1 + (round % 3 == 0 ? 0 : static_cast<int32_t>(random() % 15));
    const int32_t zero = lo + static_cast<int32_t>(random() % static_cast<uint32_t>(hi - lo + 1));
    std::vector<double> multipliers;
    std::vector<int64_t> bounds;
    for (int c = 0; c < 9; ++c) {
      // Channels range from those with a single code to those with steps a few units apart; some
      // have ties.
      const double m = std::ldexp(1 + random() / 4294967296.0, -static_cast<int>(random() % 16));
      multipliers.push_back(c == 7 ? std::ldexp(1, -static_cast<int>(random() % 12)) : m);
      bounds.push_back(1 + static_cast<int64_t>(random() % 9000));
    }
    multipliers[8] = 0;
    PreparedRequantize prepared = PrepareRequantize(mode, multipliers, bounds, zero, lo, hi);
    const NarrowChannels more = AddNarrowRequantize(prepared, bounds);
    found.in_16_bits += more.in_16_bits;
    found.in_float += more.in_float;
    const RequantizeParams p = prepared.Params();
    for (int32_t c = 0; c < 9; ++c, ++channels) {
      const auto bound = static_cast<int32_t>(bounds[static_cast<size_t>(c)]);
      for (int32_t acc = -bound; acc <= bound; ++acc) {
        const int32_t expected = ApplyRequantize(acc, p, c);
        if (p.narrow.scale[c] != 0) {
          ASSERT_EQ(In16Bits(acc, p, c), expected) << acc << " * " << multipliers[c];
        }
        if (p.float_scale[c] >= 0) {
          ASSERT_EQ(InFloat(acc, p, c, false), expected) << acc << " * " << multipliers[c];
          ASSERT_EQ(InFloat(acc, p, c, true), expected) << acc << " * " << multipliers[c];
        }
        if (p.narrow.last_low != nullptr) {
          ASSERT_EQ(acc > p.narrow.last_low[c] ? hi : lo, expected)
              << acc << " * " << multipliers[c];
        }
      }
    }
    ASSERT_EQ(p.narrow.last_low != nullptr, hi == lo + 1);
  }
  EXPECT_GT(found.in_16_bits, channels * 3 / 4);
  EXPECT_GT(found.in_float, channels * 4 / 5);  // products that are rounded twice have fewer
}

TEST(NarrowRequantize, OneStepAnywhereIsRightForAccumulatorsOfInt16) {
  std::mt19937 random(8);
  for (int round = 0; round < 400; ++round) {
    // Steps range from far below int16's limit to far above it.
    const double m = std::ldexp(1 + random() / 4294967296.0, -static_cast<int>(random() % 20));
    const int32_t zero = static_cast<int32_t>(random() % 2001) - 1000;
    const int32_t lo = zero + (round % 2 == 0 ? 1 : -1) * static_cast<int32_t>(random() % 40);
    const std::vector<int64_t> bounds = {1 << 20};
    PreparedRequantize prepared =
        PrepareRequantize(RequantizeMode::kUpward, {m}, bounds, zero, lo, lo + 1);
    AddNarrowRequantize(prepared, bounds);
    const RequantizeParams p = prepared.Params();
    ASSERT_NE(p.narrow.last_low, nullptr);
    for (int32_t acc = -INT16_MAX; acc <= INT16_MAX; acc += 1 + round % 7) {
      ASSERT_EQ(acc > p.narrow.last_low[0] ? lo + 1 : lo, ApplyRequantize(acc, p, 0)) << acc;
    }
  }
}

TEST(NarrowRequantize, WhatHasNoneHasNone) {
  const auto forms = [](double m, int64_t bound, int32_t hi) {
    PreparedRequantize prepared =
        PrepareRequantize(RequantizeMode::kUpward, {m}, {bound}, 0, 0, hi);
    const NarrowChannels found = AddNarrowRequantize(prepared, {bound});
    return std::pair(found.in_16_bits, found.in_float);
  };
  using Found = std::pair<int32_t, int32_t>;
  EXPECT_EQ(forms(0.01, 9000, 15), Found(1, 1));
  EXPECT_EQ(forms(0.01, 9000, 16), Found(0, 0));              // too many codes
  EXPECT_EQ(forms(0.01, int64_t{1} << 31, 15), Found(0, 0));  // unknown accumulators
  EXPECT_EQ(forms(1e-5, 1 << 24, 15), Found(0, 1));           // steps beyond 16 bits
  EXPECT_EQ(forms(1e-7, INT32_MAX, 15), Found(0, 0));  // and beyond the integers that a float holds
  EXPECT_EQ(forms(1e8, 1 << 20, 15), Found(0, 0));     // products beyond int32
}

/// A multiplier of 2^30 and more takes every accumulator but 0 beyond all codes.
TEST(PrepareRequantize, LargeMultipliersGiveTheEndsAndTheZeroPoint) {
  for (const RequantizeMode mode : {RequantizeMode::kUpward, RequantizeMode::kFloat,
                                    RequantizeMode::kToNearest, RequantizeMode::kGemmlowp}) {
    for (const double multiplier : {1073741823.9, 1073741824.0, 1e15, 1e38, 1e300}) {
      for (const int64_t bound : {int64_t{100}, int64_t{1} << 20, int64_t{1} << 31}) {
        const PreparedRequantize prepared =
            PrepareRequantize(mode, {0.5, multiplier}, {bound}, 3, -128, 127);
        const RequantizeParams p = prepared.Params();
        for (const int32_t acc : {1, 2, 99, kMax}) {
          EXPECT_EQ(ApplyRequantize(acc, p, 1), 127) << multiplier << ' ' << acc;
          EXPECT_EQ(ApplyRequantize(-acc, p, 1), -128) << multiplier << ' ' << acc;
        }
        EXPECT_EQ(ApplyRequantize(0, p, 1), 3) << multiplier;
        EXPECT_EQ(ApplyRequantize(10, p, 0), 8) << "the neighbour";
      }
    }
  }
}

TEST(PrepareRequantize, RefusesWhatDoesNotFit) {
  const RequantizeMode mode = RequantizeMode::kUpward;
  EXPECT_THROW(PrepareRequantize(mode, {0.5, 0.5, 0.5}, {1, 2}, 0, -128, 127), Error);
  EXPECT_THROW(PrepareRequantize(mode, {0.5}, {1}, 0, 127, -128), Error);
  EXPECT_THROW(PrepareRequantize(mode, {-0.5}, {1}, 0, -128, 127), Error);
}

}  // namespace
}  // namespace requant
