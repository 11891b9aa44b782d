#pragma once
// One float with the operations of kernels that are written once for scalars and vectors.
// Freestanding. lanes_simd.h has the same operations on four floats.
#include <stdint.h>

namespace requant {

struct ScalarLanes {
  using Value = float;
  using Mask = bool;
  static inline float Splat(float x) { return x; }
  static inline float Add(float a, float b) { return a + b; }
  static inline float Sub(float a, float b) { return a - b; }
  static inline float Mul(float a, float b) { return a * b; }
  static inline float Div(float a, float b) { return a / b; }
  static inline float Abs(float a) { return __builtin_fabsf(a); }
  /// a < b ? b : a
  static inline float Max(float a, float b) { return a < b ? b : a; }
  static inline bool Less(float a, float b) { return a < b; }
  static inline float Select(bool mask, float yes, float no) { return mask ? yes : no; }
  /// |a| with the sign of b.
  static inline float CopySign(float a, float b) { return __builtin_copysignf(a, b); }
  /// 2^n, where adding 1.5 * 2^23 has left n in the low bits of x.
  static inline float PowerOfTwo(float x) {
    return __builtin_bit_cast(float, (__builtin_bit_cast(uint32_t, x) << 23) + 0x3f800000u);
  }
};

}  // namespace requant
