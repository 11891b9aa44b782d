#pragma once
// e^x of floats without branches, so that compilers vectorize loops over it. The formulas are those
// of kernels/transcendental.h, which operators may not include: x = n ln 2 + r with |r| <= ln(2) /
// 2, so e^x = 2^n e^r (Cody & Waite, "Software Manual for the Elementary Functions", 1980, ch. 6),
// with ln 2 in two parts and the Taylor polynomial for e^r up to r^7 / 7!.
#include <cstdint>

namespace requant::float_exp {

inline constexpr float kMagic = 12582912.0F;  // 1.5 * 2^23: adding it rounds to integers

/// `shifted` has n in its low bits, `tail` is e^r - 1.
struct Parts {
  float shifted, tail;
};

inline __attribute__((always_inline)) Parts Split(float x) {
  const float shifted = x * 1.44269504088896341F + kMagic;
  const float n = shifted - kMagic;
  const float r = x - n * 0.693359375F - n * -2.12194440054690583e-4F;
  float q = 1.9841270114e-4F;
  q = q * r + 1.3888889225e-3F;
  q = q * r + 8.3333337680e-3F;
  q = q * r + 4.1666667908e-2F;
  q = q * r + 1.6666667163e-1F;
  q = q * r + 0.5F;
  return {shifted, r + r * r * q};
}

/// 2^n
inline __attribute__((always_inline)) float PowerOfTwo(int32_t n) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(n + 127) << 23);
}
inline __attribute__((always_inline)) int32_t LowBits(float shifted) {
  return static_cast<int32_t>(__builtin_bit_cast(uint32_t, shifted) -
                              __builtin_bit_cast(uint32_t, kMagic));
}

/// e^x. 2^n is multiplied in two factors, because it may be outside the range of floats where e^x
/// is inside, as among the denormals.
inline __attribute__((always_inline)) float Exp(float x) {
  x = x < -104.0F ? -104.0F : x;  // beyond these bounds the result is 0 or infinity
  x = x > 89.0F ? 89.0F : x;
  const Parts parts = Split(x);
  const int32_t n = LowBits(parts.shifted);
  return (1.0F + parts.tail) * PowerOfTwo(n >> 1) * PowerOfTwo(n - (n >> 1));
}

/// e^x - 1 for x <= 0, accurate near 0: 2^n (e^r - 1) + (2^n - 1).
inline __attribute__((always_inline)) float ExpMinus1(float x) {
  const Parts parts = Split(x < -18.0F ? -18.0F : x);  // below that the result is -1
  const float power = PowerOfTwo(LowBits(parts.shifted));
  return power * parts.tail + (power - 1.0F);
}

}  // namespace requant::float_exp
