#pragma once
// Converts 8-bit inputs to the type that i32x4.relaxed_dot_i8x16_i7x16_add_s multiplies exactly on
// this machine (rq_dot8): unsigned or signed bytes. Freestanding.
//
// Conversion flips a byte's top bit, which moves the zero point by 128.
#include "base/simd.h"

namespace requant::simd {

/// Whether the instruction takes its second operand as unsigned: 1 * x is positive for a byte x
/// above 127. `any` supplies the other bits of x, which do not matter; that they come from the
/// caller keeps optimizers from deciding the answer at compile time.
template <typename Dot8>
RQ_INLINE bool TakesUnsigned(int32_t any) {
  const v128_t x = wasm_i8x16_splat(static_cast<int8_t>(any | 0x80));
  return wasm_i32x4_extract_lane(Dot8::Add(wasm_i8x16_splat(1), x, wasm_i32x4_splat(0)), 0) > 0;
}

struct ByteCoding {
  bool flip;
  int32_t zero_point;  ///< of the converted input
};
/// How to convert inputs of this signedness and zero point; `any` is as for TakesUnsigned.
template <typename Dot8>
RQ_INLINE ByteCoding CodingOf(int32_t input_signed, int32_t zero_point, int32_t any) {
  const bool is_unsigned = TakesUnsigned<Dot8>(any);
  const bool flip = is_unsigned == (input_signed != 0);
  return {flip, zero_point + (!flip ? 0 : is_unsigned ? 128 : -128)};
}

/// The first four initial accumulators of a block, bias - zero_point * (sum of weights). A block
/// begins with eight biases and eight sums of weights.
RQ_INLINE v128_t LoadBase(const int32_t* block, int32_t zero_point) {
  return wasm_i32x4_sub(wasm_v128_load(block),
                        wasm_i32x4_mul(wasm_i32x4_splat(zero_point), wasm_v128_load(block + 8)));
}

/// Stores all eight initial accumulators, for kernels whose accumulators live in memory.
RQ_INLINE void StoreBase(const void* block, int32_t zero_point, int32_t* base) {
  const int32_t* from = static_cast<const int32_t*>(block);
  wasm_v128_store(base, LoadBase(from, zero_point));
  wasm_v128_store(base + 4, LoadBase(from + 4, zero_point));
}

}  // namespace requant::simd
