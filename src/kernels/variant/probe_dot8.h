#pragma once
// Finds out which of its permitted meanings i32x4.relaxed_dot_i8x16_i7x16_add_s has on this
// machine.
//
// The relaxed SIMD proposal fixes the result only while the second operand lies in [0, 127]. Above
// that its bytes may be signed or unsigned, and the sum of two products may saturate at 16 bits
// (x86 without AVX-VNNI: PMADDUBSW). Within one process an engine must keep to one meaning. The
// probe computes: first extreme operands, in all lanes and in some of them, then random ones, each
// with accumulators that overflow as well (VPDPBUSDS would saturate).
//
// V8 on ARM has two meanings: its optimizing compiler emits SDOT, its baseline compiler products of
// pairs that wrap at 16 bits. Only 2 * (-128 * -128) of signed bytes wraps, so both count as the
// signed form, and that one sum may be either.
#include "base/lcg.h"
#include "base/simd.h"

namespace requant {

/// Dot::Add(w, x, acc) is the instruction. Returns what rq_dot8 does.
template <typename Dot>
static __attribute__((noinline)) int32_t ProbeDot8() {
  const uint64_t extremes = 0x4001FF00817F80FFu;  // eight bytes: the extreme values of each type
  Lcg random{12345};
  int32_t forms = 3;
  for (int32_t i = 0; i < 512; ++i) {
    const int8_t low = static_cast<int8_t>(extremes >> (8 * (i & 7)));
    const int8_t high = static_cast<int8_t>(extremes >> (8 * (i >> 3 & 7)));
    v128_t w = wasm_i8x16_splat(low), x = wasm_i8x16_splat(high);
    // The tests come in eight parts of 64. In the last two all operands are random; in the others
    // only the bytes that `keep` takes out of the extremes.
    const int32_t part = i >> 6;
    v128_t noise[3];
    RQ_UNROLL for (int n = 0; n < 3; ++n) {
      RQ_UNROLL for (int lane = 0; lane < 4; ++lane) {
        const uint32_t number = random.Next();
        const int32_t bits = static_cast<int32_t>(number ^ number >> 16);
        noise[n] = lane == 0   ? wasm_i32x4_splat(bits)
                   : lane == 1 ? wasm_i32x4_replace_lane(noise[n], 1, bits)
                   : lane == 2 ? wasm_i32x4_replace_lane(noise[n], 2, bits)
                               : wasm_i32x4_replace_lane(noise[n], 3, bits);
      }
    }
    const v128_t keep = part < 2    ? wasm_i8x16_splat(-1)
                        : part == 2 ? wasm_i16x8_splat(0xFF)
                        : part == 3 ? wasm_i32x4_splat(0xFFFF)
                        : part == 4 ? wasm_i64x2_make(-1, 0)
                        : part == 5 ? wasm_i64x2_make(0, -1)
                                    : wasm_i8x16_splat(0);
    w = wasm_v128_bitselect(w, noise[0], keep);
    x = wasm_v128_bitselect(x, noise[1], keep);
    const v128_t acc = part == 0   ? wasm_i32x4_splat(0)
                       : (i & 1)   ? wasm_i32x4_splat(0x7FFFFFF0)
                       : part == 1 ? wasm_i32x4_splat(-0x7FFFFFF0)
                                   : noise[2];
    const v128_t got = Dot::Add(w, x, acc);
    if (!wasm_i32x4_all_true(
            wasm_i32x4_eq(got, wasm_i32x4_add(acc, simd::ExactDot8<true>(w, x))))) {
      forms &= ~1;
    }
    const v128_t signed_sums = wasm_i32x4_add(acc, simd::ExactDot8<false>(w, x));
    // `pairs` counts -1 for every pair of (-128 * -128), each of which moves a sum by 2^16.
    const v128_t least = wasm_i8x16_splat(-128);
    const v128_t pairs = wasm_i32x4_extadd_pairwise_i16x8(
        wasm_v128_and(wasm_i16x8_eq(w, least), wasm_i16x8_eq(x, least)));
    const v128_t wrapped = wasm_i32x4_add(signed_sums, wasm_i32x4_shl(pairs, 16));
    if (!wasm_i32x4_all_true(
            wasm_v128_or(wasm_i32x4_eq(got, signed_sums), wasm_i32x4_eq(got, wrapped)))) {
      forms &= ~2;
    }
  }
  return forms;
}

}  // namespace requant
