#pragma once
// Helpers that vector kernels on 8-bit values share. They are freestanding, like everything a
// vector.cpp includes.
//
// uint8 and int8 go through the same code: flipping the top bit (xor 0x80) maps an unsigned byte u
// to the signed byte u - 128, and the zero point moves along with it. "Coded" below means this
// signed form.
#include "base/simd.h"

namespace requant::simd {

/// The bits that differ between a byte and its coded form.
RQ_INLINE uint8_t FlipOf(int32_t is_signed) { return is_signed ? 0 : 0x80; }
/// The amount that coding subtracts from a value: 0 for int8, 128 for uint8.
RQ_INLINE int32_t CodeOffset(int32_t is_signed) { return is_signed ? 0 : 128; }

RQ_INLINE v128_t SplatByte(uint8_t byte) { return wasm_i8x16_splat(static_cast<int8_t>(byte)); }

/// Loads n (1..8) bytes into the low half and clears the rest. Never reads past data[n - 1].
RQ_INLINE v128_t LoadPartialBytes(const void* data, size_t n) {
  const uint8_t* p = static_cast<const uint8_t*>(data);
  if (n >= 8) return wasm_v128_load64_zero(data);
  uint64_t bits = 0;
  for (size_t i = 0; i < n; ++i) bits |= static_cast<uint64_t>(p[i]) << (8 * i);
  return wasm_i64x2_make(static_cast<int64_t>(bits), 0);
}

/// Rounds floats half to even to int32, for |x| <= 2^22. Adding 1.5 * 2^23 leaves no bits for a
/// fraction, so the addition itself rounds (XNNPACK calls the addend "magic bias"). Takes two cheap
/// instructions on every CPU.
RQ_INLINE v128_t RoundToInt(v128_t x) {
  const v128_t magic = wasm_f32x4_splat(12582912.0f);
  return wasm_i32x4_sub(wasm_f32x4_add(x, magic), magic);
}

/// The largest of four floats; NaN if one is.
RQ_INLINE float Largest(v128_t x) {
  const v128_t y = wasm_f32x4_max(x, wasm_i32x4_shuffle(x, x, 2, 3, 0, 1));
  return wasm_f32x4_extract_lane(wasm_f32x4_max(y, wasm_i32x4_shuffle(y, y, 1, 0, 3, 2)), 0);
}

/// The codes -127..127 of four floats as int32: x * inverse, half to even; 0 for NaN.
RQ_INLINE v128_t SymmetricCodes(v128_t x, v128_t inverse) {
  const v128_t limit = wasm_f32x4_splat(127.0f);
  const v128_t code = wasm_f32x4_nearest(wasm_f32x4_mul(x, inverse));
  // The saturating conversion turns NaN into 0; the bounds keep -128 out.
  return wasm_i32x4_trunc_sat_f32x4(simd::ClampF32(code, wasm_f32x4_neg(limit), limit));
}

/// Applies RequantizeUpward (numeric/requantize.h) to four accumulators with one multiplier. The
/// results must fit int32 (CanRequantizeVector).
RQ_INLINE v128_t RequantizeUpward4(v128_t acc, int32_t multiplier, int32_t shift) {
  const v128_t m = wasm_i32x4_splat(multiplier);
  const v128_t half = wasm_i64x2_splat(int64_t{1} << (shift - 1));
  const uint32_t count = static_cast<uint32_t>(shift);
  const v128_t low =
      wasm_i64x2_shr(wasm_i64x2_add(wasm_i64x2_extmul_low_i32x4(acc, m), half), count);
  const v128_t high =
      wasm_i64x2_shr(wasm_i64x2_add(wasm_i64x2_extmul_high_i32x4(acc, m), half), count);
  return wasm_i32x4_shuffle(low, high, 0, 2, 4, 6);
}

}  // namespace requant::simd
