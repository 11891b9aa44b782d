#pragma once
// Four floats with the operations of lanes.h; each lane has the same bits as ScalarLanes.
#include "base/simd.h"

namespace requant {

struct VectorLanes {
  using Value = v128_t;
  using Mask = v128_t;

  /// `count` is the number of elements of an array, fewer than 2^31.
  explicit RQ_MEMBER VectorLanes(size_t count) : zero(simd::UnknownZero(count)) {}

  RQ_MEMBER v128_t Splat(float x) const {
    if (__builtin_bit_cast(int32_t, x) == 0) return wasm_f32x4_splat(0.0f);
    return wasm_i32x4_splat(__builtin_bit_cast(int32_t, x) + zero);
  }
  RQ_INLINE v128_t Add(v128_t a, v128_t b) { return wasm_f32x4_add(a, b); }
  RQ_INLINE v128_t Sub(v128_t a, v128_t b) { return wasm_f32x4_sub(a, b); }
  RQ_INLINE v128_t Mul(v128_t a, v128_t b) { return wasm_f32x4_mul(a, b); }
  RQ_INLINE v128_t Div(v128_t a, v128_t b) { return wasm_f32x4_div(a, b); }
  RQ_INLINE v128_t Abs(v128_t a) { return wasm_f32x4_abs(a); }
  RQ_INLINE v128_t Max(v128_t a, v128_t b) { return wasm_f32x4_pmax(a, b); }
  RQ_INLINE v128_t Less(v128_t a, v128_t b) { return wasm_f32x4_lt(a, b); }
  RQ_INLINE v128_t Select(v128_t mask, v128_t yes, v128_t no) {
    return wasm_v128_bitselect(yes, no, mask);
  }
  RQ_MEMBER v128_t CopySign(v128_t a, v128_t b) const {
    return wasm_v128_bitselect(b, a, Splat(-0.0f));
  }
  RQ_MEMBER v128_t PowerOfTwo(v128_t x) const {
    return wasm_i32x4_add(wasm_i32x4_shl(x, 23), Splat(1.0f));
  }

  int32_t zero;  // see simd::UnknownZero
};

}  // namespace requant
