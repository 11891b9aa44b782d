#include "ops/elementwise/float_sine.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace requant::float_sine {
namespace {

constexpr double kMagic = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to integers
constexpr float kMost = 4e8F;                  // about 2^28 * pi / 2

// x = n pi / 2 + r with an integer n and |r| <= pi / 4. pi / 2 is in two parts, of which the first
// has 25 bits, so that its product with n is exact up to kMost. These constants and the
// polynomials, whose errors are below 2^-34, are those of FreeBSD's msun (e_rem_pio2f.c, k_sinf.c,
// k_cosf.c: S. Moshier, B. Evans). The error is at most 0.501 units in the last place (the test
// measures it).
constexpr double kTwoOverPi = 6.36619772367581382433e-01;
constexpr double kPiOver2High = 1.57079631090164184570;
constexpr double kPiOver2Low = 1.58932547735281966916e-08;

/// The sine of x + quarter * pi / 2.
inline __attribute__((always_inline)) double SinOf(double x, int64_t quarter) {
  const double shifted = x * kTwoOverPi + kMagic;
  const double n = shifted - kMagic;
  const double r = x - n * kPiOver2High - n * kPiOver2Low;
  const double z = r * r;
  double sin = 0x16cd878c3b46a7.0p-71;
  sin = sin * z - 0x1a00f9e2cae774.0p-65;
  sin = sin * z + 0x111110896efbb2.0p-59;
  sin = sin * z - 0x15555554cbac77.0p-55;
  sin = (sin * z + 1) * r;
  double cos = 0x199342e0ee5069.0p-68;
  cos = cos * z - 0x16c087e80f1e27.0p-62;
  cos = cos * z + 0x155553e1053a42.0p-57;
  cos = cos * z - 0x1ffffffd0c5e81.0p-54;
  cos = cos * z + 1;
  const int64_t turn = __builtin_bit_cast(int64_t, shifted) + quarter;  // n in the low bits
  const double result = (turn & 1) != 0 ? cos : sin;
  return (turn & 2) != 0 ? -result : result;
}

void Map(const float* from, float* to, int64_t count, int64_t quarter, double (*exact)(double)) {
  constexpr int64_t kBlock = 64;
  float block[kBlock] = {};
  for (int64_t i = 0; i < count; i += kBlock) {
    const auto bytes = static_cast<size_t>(std::min(kBlock, count - i)) * sizeof(float);
    std::memcpy(block, from + i, bytes);
    bool small = true;
    for (const float x : block) small &= std::fabs(x) < kMost;
    if (small) {
      for (float& x : block) x = static_cast<float>(SinOf(x, quarter));
    } else {
      for (float& x : block) x = static_cast<float>(exact(x));
    }
    std::memcpy(to + i, block, bytes);
  }
}

}  // namespace

// Lambdas call the library's functions by name: functions whose address is taken would be in the
// main module.
void Sin(const float* from, float* to, int64_t count) {
  Map(from, to, count, 0, [](double x) { return std::sin(x); });
}
void Cos(const float* from, float* to, int64_t count) {
  Map(from, to, count, 1, [](double x) { return std::cos(x); });
}

}  // namespace requant::float_sine
