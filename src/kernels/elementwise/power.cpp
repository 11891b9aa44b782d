// Powers of floats. In double and without branches, so that the loop becomes vectors
// (bindings/cmake/wasm.cmake): few networks have other exponents than those of ops/float_loops.h,
// so the main module has no kernel for them.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/elementwise/table.h"

namespace requant {
namespace {

constexpr double kMagic = 6755399441055744.0;      // 1.5 * 2^52: adding it rounds to whole numbers
constexpr int64_t kRootHalf = 0x3fe6a09e00000000;  // sqrt(1/2), roughly
constexpr int kMantissa = 52;

inline __attribute__((always_inline)) int64_t BitsOf(double x) {
  return __builtin_bit_cast(int64_t, x);
}
inline __attribute__((always_inline)) double FromBits(int64_t bits) {
  return __builtin_bit_cast(double, bits);
}

/// Constants that stay in registers or on the stack (base/simd.h, UnknownZero).
struct Constants {
  int64_t zero;
  inline __attribute__((always_inline)) double operator()(double x) const {
    return FromBits(BitsOf(x) + zero);
  }
};

/// log2 of x, finite and above 0. x = 2^k m with m between sqrt(1/2) and sqrt(2), ln m = 2 atanh(s)
/// with s = (m - 1) / (m + 1), |s| < 0.172, by the polynomial through 5 Chebyshev points of s^2,
/// whose relative error is 5e-12.
inline __attribute__((always_inline)) double Log2(Constants c, double x) {
  const int64_t rest = BitsOf(x) - kRootHalf;
  constexpr int64_t kBias = int64_t{1024} << kMantissa;  // whole numbers below become positive
  const auto exponent = static_cast<uint64_t>(rest + kBias) >> kMantissa;
  const double k = FromBits(BitsOf(kMagic) + static_cast<int64_t>(exponent)) - c(kMagic + 1024);
  const double m = FromBits(BitsOf(x) - (rest & ~((int64_t{1} << kMantissa) - 1)));
  const double s = (m - c(1)) / (m + c(1));
  const double z = s * s;
  double p = c(0.23617270014383207);
  p = p * z + c(0.28534997551556496);
  p = p * z + c(0.4000038565334206);
  p = p * z + c(0.6666666524174399);
  p = p * z + c(2.000000000008411);
  return k + s * p * c(1.4426950408889634);
}

/// 2^t: 2^n e^r, |r| <= ln(2) / 2, by the polynomial through 7 Chebyshev points, whose relative
/// error is 3e-9. Beyond +-200 a float holds no more than there.
inline __attribute__((always_inline)) double Exp2(Constants c, double t) {
  t = t < c(-200) ? c(-200) : t;
  t = t > c(200) ? c(200) : t;
  const double shifted = t + c(kMagic);
  const double r = (t - (shifted - c(kMagic))) * c(0.6931471805599453);
  double q = c(0.001394858076022813);
  q = q * r + c(0.008375128890885214);
  q = q * r + c(0.04166621827530923);
  q = q * r + c(0.16666415477230287);
  q = q * r + c(0.5000000107749073);
  q = q * r + c(1.0000000377274483);
  q = q * r + c(0.9999999999595482);
  const auto power = static_cast<uint64_t>(BitsOf(shifted)) << kMantissa;
  return q * FromBits(static_cast<int64_t>(power) + BitsOf(c(1)));
}

/// Whether Power is for these: the other values are rare.
inline __attribute__((always_inline)) bool IsPlain(float x, float y) {
  const float size = std::fabs(x);
  const bool real = (x > 0) | (std::floor(y) == y);
  return (size > 0) & (size < HUGE_VALF) & (std::fabs(y) < HUGE_VALF) & real;
}

/// x^y, off by 0.54 units in the last place at most (the test measures it).
inline __attribute__((always_inline)) float Power(Constants c, double x, double y) {
  const double half = y * c(0.5);
  const int64_t odd = std::floor(half) != half ? BitsOf(c(-0.0)) : 0;  // if x is below 0
  const double power = Exp2(c, y * Log2(c, std::fabs(x)));
  return static_cast<float>(FromBits(BitsOf(power) | (BitsOf(x) & odd)));
}

constexpr size_t kBlock = 64;

/// The next elements of an operand, or one again and again.
void Load(const float* row, int32_t step, size_t at, size_t count, float* block) {
  if (step != 0) {
    std::memcpy(block, row + at, count * sizeof(float));
  } else {
    std::fill_n(block, count, *row);
  }
}

}  // namespace

void PowF32Reference(const BinaryF32Params* p) {
  float a[kBlock];
  float b[kBlock];
  std::fill_n(a, kBlock, 1.0F);
  std::fill_n(b, kBlock, 1.0F);
  float powers[kBlock];
  const Constants c{static_cast<int64_t>(p->cols >> (sizeof(size_t) * 8 - 1))};
  for (size_t r = 0; r < p->rows; ++r) {
    float* out = static_cast<float*>(p->out) + r * p->out_row_stride;
    for (size_t i = 0; i < p->cols; i += kBlock) {
      const size_t count = std::min(kBlock, p->cols - i);
      Load(p->a + r * p->a_row_stride, p->a_step, i, count, a);
      Load(p->b + r * p->b_row_stride, p->b_step, i, count, b);
      bool plain = true;
      for (size_t j = 0; j < kBlock; ++j) plain &= IsPlain(a[j], b[j]);
      if (plain) {
        for (size_t j = 0; j < kBlock; ++j) powers[j] = Power(c, a[j], b[j]);
      } else {
        for (size_t j = 0; j < count; ++j)
          powers[j] = static_cast<float>(std::pow(double{a[j]}, b[j]));
      }
      for (size_t j = 0; j < count; ++j) {
        const float value = powers[j] < p->lo ? p->lo : powers[j];  // a NaN stays
        out[i + j] = p->hi < value ? p->hi : value;
      }
    }
  }
}

}  // namespace requant
