#pragma once
// Packing and unpacking (nibbles.h), sums of codes, and the last stage of kernels that can write
// packed codes. Vector code, freestanding.
#include "base/simd.h"
#include "kernels/bitserial/nibbles.h"
#include "kernels/bitserial/planes.h"
#include "kernels/conv/finish.h"

namespace requant::bitserial {

/// Adds the four bytes of each 32-bit lane to the lane of acc.
RQ_INLINE v128_t AddLanes(v128_t acc, v128_t bytes) {
  return wasm_i32x4_add(acc,
                        wasm_u32x4_extadd_pairwise_u16x8(wasm_u16x8_extadd_pairwise_u8x16(bytes)));
}
RQ_INLINE int32_t SumOfLanes(v128_t lanes) {
  return wasm_i32x4_extract_lane(lanes, 0) + wasm_i32x4_extract_lane(lanes, 1) +
         wasm_i32x4_extract_lane(lanes, 2) + wasm_i32x4_extract_lane(lanes, 3);
}

/// The sixteen codes, less the least one, in the low half of v.
RQ_INLINE v128_t UnpackLow(v128_t v) {
  const v128_t mask = wasm_i8x16_splat(15);
  const v128_t low = wasm_v128_and(v, mask);
  const v128_t high = wasm_v128_and(wasm_u16x8_shr(v, 4), mask);
  return wasm_i32x4_shuffle(low, high, 0, 4, 1, 5);
}

/// Packs n elements, a multiple of 8, whose codes less `base` are below 16.
RQ_INLINE void PackCodes(const uint8_t* in, ptrdiff_t n, v128_t base, uint8_t* out) {
  ptrdiff_t i = 0;
  for (; i + 32 <= n; i += 32, out += 16) {
    const v128_t x = wasm_i8x16_sub(wasm_v128_load(in + i), base);
    const v128_t y = wasm_i8x16_sub(wasm_v128_load(in + i + 16), base);
    const v128_t low = wasm_i32x4_shuffle(x, y, 0, 2, 4, 6);
    const v128_t high = wasm_i32x4_shuffle(x, y, 1, 3, 5, 7);
    wasm_v128_store(out, wasm_v128_or(low, wasm_i32x4_shl(high, 4)));
  }
  for (; i < n; i += 8, out += 4) {
    const v128_t x = wasm_i8x16_sub(wasm_v128_load64_zero(in + i), base);
    wasm_v128_store32_lane(out, wasm_v128_or(x, wasm_u64x2_shr(x, 28)), 0);
  }
}

/// The distance in bytes between two elements of a packed tensor that are `elements` apart.
RQ_INLINE ptrdiff_t NibbleBytes(ptrdiff_t elements) { return elements / 2; }

/// Runs conv::Finish, or its form for packed codes or bit planes, for n channels of a block of 8.
RQ_INLINE void Finish(const ConvQ8Params* p, int32_t* acc, int32_t row, int32_t count,
                      int32_t channel, int32_t n) {
  if (p->output_packed != 0 || p->residual_packed != 0) {
    rq_conv_finish_nibbles(p, acc, row, count, channel);
  } else if (p->output_planes != 0) {
    rq_conv_finish_planes(p, acc, row, count, channel);
  } else {
    conv::Finish(p, acc, row, count, channel, n);
  }
}

}  // namespace requant::bitserial
