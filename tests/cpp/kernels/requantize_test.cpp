// The vector form against the normative scalar, path by path.
#include "kernels/requantize/kernel.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "numeric/requantize_prepare.h"

namespace requant {
namespace {

constexpr int kChannels = 21;  // two whole blocks and a tail
constexpr int kRows = 37;
constexpr int kStride = 24;

void ExpectSameAsScalar(const RequantizeParams& p, const std::vector<int32_t>& acc,
                        bool is_signed) {
  constexpr int kOutStride = kChannels + 4;
  std::vector<uint8_t> out(kRows * kOutStride, 0xA5);
  rq_requantize_rows(acc.data(), kStride, kRows, 0, kChannels, &p, out.data(), kOutStride,
                     is_signed);
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kChannels; ++c) {
      const int32_t expected = ApplyRequantize(acc[r * kStride + c], p, c);
      const uint8_t got = out[r * kOutStride + c];
      ASSERT_EQ(is_signed ? static_cast<int8_t>(got) : static_cast<int32_t>(got), expected)
          << "acc " << acc[r * kStride + c] << " M " << p.multiplier[c] << " t " << p.shift[c]
          << " path " << static_cast<int>(p.path) << " mode " << static_cast<int>(p.mode);
    }
    for (int c = kChannels; c < kOutStride; ++c) ASSERT_EQ(out[r * kOutStride + c], 0xA5);
  }
}

/// Accumulators within the bound: extremes, small values (which can be ties), random ones.
std::vector<int32_t> Accumulators(std::mt19937& random, int64_t bound) {
  std::vector<int32_t> acc(kRows * kStride, 0);
  for (int32_t& a : acc) {
    const int64_t limit = std::min<int64_t>(bound, INT32_MAX);
    switch (random() % 6) {
      case 0:
        a = static_cast<int32_t>(limit);
        break;
      case 1:
        a = static_cast<int32_t>(-limit);
        break;
      case 2:
        a = static_cast<int32_t>(random() % 41) - 20;
        break;
      case 3:
        a = static_cast<int32_t>((static_cast<int64_t>(random() % 512) - 256) << (random() % 10));
        break;
      default:
        a = static_cast<int32_t>(random() % (2 * static_cast<uint64_t>(limit) + 1) - limit);
    }
    a = static_cast<int32_t>(std::clamp<int64_t>(a, -limit, limit));
  }
  return acc;
}

TEST(RequantizeRows, EveryPathAndModeMatchesTheScalar) {
  std::mt19937 random(7);
  int paths_seen[3] = {0, 0, 0}, in_float = 0;
  for (const int64_t bound : {int64_t{1000}, int64_t{1} << 18, (int64_t{1} << 21) - 1,
                              int64_t{1} << 25, int64_t{1} << 28, int64_t{1} << 31}) {
    for (int round = 0; round < 24; ++round) {
      std::vector<double> multipliers(kChannels);
      for (double& m : multipliers) {
        // Powers of two give exact ties; other multipliers are random; some channels are dead.
        const double fraction = round % 3 == 0 ? 0.5 : 0.5 + random() / 8589934592.0;
        const double wanted = 200.0 / static_cast<double>(bound);
        m = std::ldexp(fraction, std::ilogb(wanted) + static_cast<int>(random() % 3) - 1);
        if (round % 4 == 0) m = std::ldexp(fraction, -static_cast<int>(random() % 12));
        if (random() % 9 == 0) m *= round % 2 == 0 ? 1e-7 : 1e-4;
        if (random() % 17 == 0) m = 0;
        if (round % 8 == 3 && random() % 5 == 0) m = std::ldexp(fraction, 20 + random() % 40);
        if (round % 8 >= 6) m = std::round(m * 65536) / 65536;  // simple multipliers
      }
      const bool is_signed = round % 2 == 1;
      const int32_t zero_points[] = {0, 255, 128, 3, 0, -128, 127, -3};
      const int32_t zero_point = zero_points[round % 4 + (is_signed ? 4 : 0)];
      const int32_t type_lo = is_signed ? -128 : 0, type_hi = is_signed ? 127 : 255;
      const bool narrow = round % 5 == 0;
      const std::vector<int32_t> acc = Accumulators(random, bound);
      for (const RequantizeMode mode : {RequantizeMode::kUpward, RequantizeMode::kFloat,
                                        RequantizeMode::kToNearest, RequantizeMode::kGemmlowp}) {
        const PreparedRequantize prepared =
            PrepareRequantize(mode, multipliers, {bound}, zero_point,
                              narrow ? type_lo + 20 : type_lo, narrow ? type_hi - 30 : type_hi);
        RequantizeParams p = prepared.Params();
        ++paths_seen[static_cast<int>(p.path)];
        in_float += p.float_scale != nullptr ? 1 : 0;
        ExpectSameAsScalar(p, acc, is_signed);
        p.float_scale = nullptr;
        ExpectSameAsScalar(p, acc, is_signed);
        if (bound < int64_t{1} << 31) {
          p.path = RequantizePath::kShift;
          ExpectSameAsScalar(p, acc, is_signed);
        }
        p.path = RequantizePath::kScalar;
        ExpectSameAsScalar(p, acc, is_signed);
        if (HasFatalFailure()) return;
      }
    }
  }
  for (const int seen : paths_seen) EXPECT_GT(seen, 0);
  EXPECT_GT(in_float, 30);
}

}  // namespace
}  // namespace requant
