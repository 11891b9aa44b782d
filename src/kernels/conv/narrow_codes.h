#pragma once
// From sums of int16 to codes of few bits without leaving the registers: the end of the tiles of
// vector_narrow.cpp where all products of an output fit int16. Vector code, freestanding.
#include "base/simd.h"
#include "kernels/conv/blocking.h"
#include "kernels/conv/kernel.h"
#include "kernels/requantize/codes_f32.h"

namespace requant::conv {

/// For the eight channels of a block: NarrowRequantize of numeric/requantize.h, and the addition
/// behind it, QAddNarrow of numeric/qadd.h. Vectors in memory, since tiles need the registers.
struct BlockCodes {
  v128_t base0, base1;    // what the sums start with: an int16 for every channel, before a 0
  v128_t scale0, scale1;  // int16, twice for every channel
  v128_t factor, bias, step;
  v128_t float_scale0, float_scale1, float_bias0, float_bias1;
  v128_t lo, hi, middle;  // of the output, bytes; the clamp is less `middle`
  // The addition: of codes less their middle and of bytes xor `flip`.
  v128_t own_lo, own_hi, own, other, flip, sum_bias, sum_step;
  int32_t in_float;
};
static_assert(sizeof(BlockCodes) <= kNarrowCodesBytes);

/// The codes of a row, less the middle one, before the clamp.
RQ_INLINE v128_t CodesOf(v128_t acc0, v128_t acc1, const BlockCodes& c) {
  const v128_t x = wasm_i16x8_narrow_i32x4(wasm_i32x4_dot_i16x8(acc0, c.scale0),
                                           wasm_i32x4_dot_i16x8(acc1, c.scale1));
  return simd::RoundingShiftI16(wasm_i16x8_add_sat(simd::MulQ15(x, c.factor), c.bias), c.step);
}

/// The same in float32.
RQ_INLINE v128_t FloatQuarter(v128_t acc, v128_t scale, v128_t bias) {
  return CodesF32(wasm_i32x4_extadd_pairwise_i16x8(acc), scale, bias);
}
RQ_INLINE v128_t FloatCodesOf(v128_t acc0, v128_t acc1, const BlockCodes& c) {
  const v128_t codes = wasm_i16x8_narrow_i32x4(FloatQuarter(acc0, c.float_scale0, c.float_bias0),
                                               FloatQuarter(acc1, c.float_scale1, c.float_bias1));
  return wasm_i16x8_sub_sat(codes, wasm_i16x8_splat(kNarrowMiddle));
}

/// The same of the sum of these codes and the eight of `residual`.
RQ_INLINE v128_t SumsOf(v128_t codes, const uint8_t* residual, const BlockCodes& c) {
  const v128_t own = wasm_i16x8_min(wasm_i16x8_max(codes, c.own_lo), c.own_hi);
  const v128_t other = wasm_v128_xor(wasm_u16x8_load8x8(residual), c.flip);
  const v128_t sum = wasm_i16x8_add(wasm_i16x8_mul(own, c.own), wasm_i16x8_mul(other, c.other));
  return simd::RoundingShiftI16(wasm_i16x8_add(sum, c.sum_bias), c.sum_step);
}

RQ_INLINE v128_t ClampCodes(v128_t first, v128_t second, const BlockCodes& c) {
  const v128_t bytes = wasm_i8x16_narrow_i16x8(first, second);
  return wasm_i8x16_add(wasm_i8x16_min(wasm_i8x16_max(bytes, c.lo), c.hi), c.middle);
}

/// Whether the codes of whole blocks can be made here, and the residual added; SetCodes says it of
/// each.
RQ_INLINE bool CanMakeCodes(const ConvQ8Params* p) {
  const ConvGeometry& g = p->geometry;
  if (p->requantize.narrow.shift == 0 || p->output_type >= ConvQ8Output::kInt32 ||
      p->output_packed != 0 || p->output_planes != 0 || g.out_c / g.groups % kChannelBlock != 0) {
    return false;
  }
  if (p->residual == nullptr) return true;
  const QAddParams& add = p->addition;
  return p->residual_packed == 0 && p->addition_is_float == 0 && add.narrow.shift != 0 &&
         add.narrow.saturates == 0 && add.lo - add.narrow.middle >= -128 &&
         add.hi - add.narrow.middle <= 127;
}

/// Eight numbers of 16 bits.
RQ_INLINE v128_t LoadInt16(const int32_t* from) {
  return wasm_i16x8_narrow_i32x4(wasm_v128_load(from), wasm_v128_load(from + 4));
}

/// Whether a block's codes can be made without leaving the registers; if so, fills `codes`.
RQ_INLINE bool SetCodes(const ConvQ8Params* p, const uint8_t* block, int32_t steps,
                        const int32_t* base, int32_t channel, BlockCodes* codes) {
  const NarrowRequantize& narrow = p->requantize.narrow;
  const auto* segment = reinterpret_cast<const NarrowSegment*>(block + kNarrowSegment);
  if (segment->steps < steps) return false;
  const v128_t base0 = wasm_v128_load(base), base1 = wasm_v128_load(base + 4);
  const v128_t least = wasm_i32x4_splat(segment->least_base);
  const v128_t most = wasm_i32x4_splat(segment->most_base);
  const v128_t scale = LoadInt16(narrow.scale + channel);
  const auto within = [&](v128_t x) __attribute__((always_inline)) {
    return wasm_v128_and(wasm_i32x4_ge(x, least), wasm_i32x4_le(x, most));
  };
  if (!wasm_i32x4_all_true(wasm_v128_and(within(base0), within(base1)))) return false;
  codes->in_float = wasm_i16x8_all_true(scale) ? 0 : 1;
  if (codes->in_float != 0) {
    codes->float_scale0 = wasm_v128_load(p->requantize.float_scale + channel);
    codes->float_scale1 = wasm_v128_load(p->requantize.float_scale + channel + 4);
    codes->float_bias0 = wasm_v128_load(p->requantize.float_bias + channel);
    codes->float_bias1 = wasm_v128_load(p->requantize.float_bias + channel + 4);
    if (wasm_i32x4_bitmask(wasm_v128_or(codes->float_scale0, codes->float_scale1)) != 0) {
      return false;
    }
  }
  const v128_t low = wasm_i32x4_splat(0xFFFF);
  codes->base0 = wasm_v128_and(base0, low);
  codes->base1 = wasm_v128_and(base1, low);
  codes->scale0 = wasm_i16x8_shuffle(scale, scale, 0, 0, 1, 1, 2, 2, 3, 3);
  codes->scale1 = wasm_i16x8_shuffle(scale, scale, 4, 4, 5, 5, 6, 6, 7, 7);
  codes->factor = LoadInt16(narrow.factor + channel);
  codes->bias = LoadInt16(narrow.bias + channel);
  codes->step = simd::RoundingStepI16(narrow.shift);
  return true;
}

/// What the codes of all blocks have in common.
RQ_INLINE void SetOutput(const ConvQ8Params* p, BlockCodes* codes) {
  const bool adds = p->residual != nullptr;
  const auto splat16 = [](int32_t value) __attribute__((always_inline)) {
    return wasm_i16x8_splat(static_cast<int16_t>(value));
  };
  const RequantizeParams& own = p->requantize;
  const QAddParams& add = p->addition;
  const int32_t lo = adds ? add.lo : own.lo, hi = adds ? add.hi : own.hi;
  const int32_t middle = adds ? add.narrow.middle : lo + kNarrowMiddle;
  const auto splat8 = [](int32_t value) __attribute__((always_inline)) {
    return wasm_i8x16_splat(static_cast<int8_t>(value));
  };
  codes->lo = splat8(lo - middle);
  codes->hi = splat8(hi - middle);
  codes->middle = splat8(middle);
  if (!adds) return;
  const bool first = p->residual_first != 0;
  const int32_t own_factor = first ? add.narrow.b : add.narrow.a;
  const int32_t factor = first ? add.narrow.a : add.narrow.b;
  const int32_t own_zero = first ? add.b_zero : add.a_zero;
  const int32_t zero = first ? add.a_zero : add.b_zero;
  // The byte xor 128 is what a signed one is, and 128.
  const int32_t flip = (first ? add.a_signed : add.b_signed) != 0 ? 128 : 0;
  const int32_t own_middle = own.lo + kNarrowMiddle;
  codes->own_lo = splat16(own.lo - own_middle);
  codes->own_hi = splat16(own.hi - own_middle);
  codes->own = splat16(own_factor);
  codes->other = splat16(factor);
  codes->flip = splat16(flip);
  codes->sum_bias =
      splat16(add.narrow.bias + (own_middle - own_zero) * own_factor - (zero + flip) * factor);
  codes->sum_step = simd::RoundingStepI16(add.narrow.shift);
}

}  // namespace requant::conv
