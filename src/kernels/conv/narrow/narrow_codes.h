#pragma once
// Turns int16 sums into codes without widening them first: the last stage of vector_narrow.cpp's
// tiles and of lookups (kernels/bitserial/lookup_codes.h) where all products of an output fit
// int16. Vector code, freestanding.
#include "base/simd.h"
#include "kernels/conv/narrow/can_make_codes.h"
#include "kernels/requantize/codes_f32.h"

namespace requant::conv {

/// How codes are made: by NarrowRequantize (numeric/requantize.h) in 16 bits, or in float32.
/// kFillsInt16 is for an addition whose operand's 16 codes fill int16 once scaled, so that
/// saturation is the clamp.
enum class CodeForm : int32_t { kIn16Bits, kInFloat, kFillsInt16 };

/// The form for the eight channels of a block, and the constants of that form and of the addition
/// behind it (QAddNarrow of numeric/qadd.h). The vectors stay in memory, since tiles need the
/// registers.
struct BlockCodes {
  // For products, where two lanes are one channel: the initial sum of every channel in the first of
  // its lanes, 0 in the second, and its scale in both.
  v128_t base0, base1, scale0, scale1;
  // For lookups, where one lane is one channel: initial sum and scale, and the sums at which their
  // product with the scale saturates.
  v128_t base, scale, least, most;
  v128_t factor, bias, step;
  v128_t float_scale0, float_scale1, float_bias0, float_bias1;
  // the least code as a byte, and the difference to the greatest one as uint16
  v128_t float_lo, float_most;
  v128_t lo, hi, middle;  // bytes of the output; `lo` and `hi` are less `middle`
  // For the addition: own codes are less their middle or, in float32, less the least one; the
  // residual's are bytes xor `flip`.
  v128_t own_lo, own_hi, own, other, flip, sum_step;
  // the addition's bias for codes less their middle, and the bias for the chosen form
  v128_t middle_bias, sum_bias;
  CodeForm form;
  int32_t of_int32;  // 1: sums do not fit int16, and the form is kInFloat
  int32_t may_fill;  // 1: the form is kFillsInt16 unless a bias is too large
};
static_assert(sizeof(BlockCodes) <= kNarrowCodesBytes);

/// The codes of a row less the middle one, times 2^shift, for accumulators of which two lanes are
/// one channel.
RQ_INLINE v128_t LineOf(v128_t acc0, v128_t acc1, const BlockCodes& c) {
  const v128_t x = wasm_i16x8_narrow_i32x4(wasm_i32x4_dot_i16x8(acc0, c.scale0),
                                           wasm_i32x4_dot_i16x8(acc1, c.scale1));
  return wasm_i16x8_add_sat(simd::MulQ15(x, c.factor), c.bias);
}
/// The codes of a row less the middle one, times 2^shift, for accumulators of which one lane is one
/// channel.
RQ_INLINE v128_t LineOf(v128_t acc, const BlockCodes& c) {
  const v128_t x = wasm_i16x8_mul(wasm_i16x8_min(wasm_i16x8_max(acc, c.least), c.most), c.scale);
  return wasm_i16x8_add_sat(simd::MulQ15(x, c.factor), c.bias);
}

/// The codes less the middle one, before the clamp, from LineOf.
RQ_INLINE v128_t CodesOf(v128_t line, const BlockCodes& c) {
  return simd::RoundingShiftI16(line, c.step);
}

/// The clamped codes that SumsOf takes, from LineOf.
template <bool kFills>
RQ_INLINE v128_t OwnCodes(v128_t line, const BlockCodes& c) {
  if (kFills) return wasm_i16x8_shr(line, kNarrowFullShift);
  return wasm_i16x8_min(wasm_i16x8_max(CodesOf(line, c), c.own_lo), c.own_hi);
}

/// The clamped codes less the least one, from eight int32 accumulators, in float32.
RQ_INLINE v128_t FloatCodes(v128_t acc0, v128_t acc1, const BlockCodes& c) {
  const v128_t codes = wasm_u16x8_narrow_i32x4(CodesF32(acc0, c.float_scale0, c.float_bias0),
                                               CodesF32(acc1, c.float_scale1, c.float_bias1));
  return wasm_u16x8_min(codes, c.float_most);
}

/// The clamped codes less the least one, in float32, from int16 accumulators of which one lane is
/// one channel.
RQ_INLINE v128_t FloatCodesOf(v128_t acc, const BlockCodes& c) {
  return FloatCodes(wasm_i32x4_extend_low_i16x8(acc), wasm_i32x4_extend_high_i16x8(acc), c);
}

/// The codes of the sum of `own` and eight bytes of `residual`, less the middle one, before the
/// clamp.
RQ_INLINE v128_t SumsOf(v128_t own, const uint8_t* residual, const BlockCodes& c) {
  const v128_t other = wasm_v128_xor(wasm_u16x8_load8x8(residual), c.flip);
  const v128_t sum = wasm_i16x8_add(wasm_i16x8_mul(own, c.own), wasm_i16x8_mul(other, c.other));
  return simd::RoundingShiftI16(wasm_i16x8_add(sum, c.sum_bias), c.sum_step);
}

/// The bytes of two rows: from CodesOf or SumsOf here, from FloatCodes in FloatBytes.
RQ_INLINE v128_t ClampCodes(v128_t first, v128_t second, const BlockCodes& c) {
  const v128_t bytes = wasm_i8x16_narrow_i16x8(first, second);
  return wasm_i8x16_add(wasm_i8x16_min(wasm_i8x16_max(bytes, c.lo), c.hi), c.middle);
}
RQ_INLINE v128_t FloatBytes(v128_t first, v128_t second, const BlockCodes& c) {
  return wasm_i8x16_add(wasm_u8x16_narrow_i16x8(first, second), c.float_lo);
}

/// Loads eight int32 that fit int16, as int16.
RQ_INLINE v128_t LoadInt16(const int32_t* from) {
  return wasm_i16x8_narrow_i32x4(wasm_v128_load(from), wasm_v128_load(from + 4));
}

/// Sets up the form in 16 bits for eight channels; returns false if some channel has none.
RQ_INLINE bool SetIn16Bits(const NarrowRequantize& narrow, int32_t channel, BlockCodes* codes) {
  if (narrow.shift == 0) return false;
  const v128_t scale = LoadInt16(narrow.scale + channel);
  if (!wasm_i16x8_all_true(scale)) return false;
  codes->scale0 = wasm_i16x8_shuffle(scale, scale, 0, 0, 1, 1, 2, 2, 3, 3);
  codes->scale1 = wasm_i16x8_shuffle(scale, scale, 4, 4, 5, 5, 6, 6, 7, 7);
  codes->scale = scale;
  // Beyond these sums the product, saturated or not, gives the first or the last code.
  const auto quotient = [&](int32_t c) __attribute__((always_inline)) {
    const v128_t divisor = wasm_f32x4_convert_i32x4(wasm_v128_load(narrow.scale + c));
    return simd::TruncInRange(wasm_f32x4_div(wasm_f32x4_splat(INT16_MAX), divisor));
  };
  codes->most = wasm_i16x8_narrow_i32x4(quotient(channel), quotient(channel + 4));
  codes->least = wasm_i16x8_neg(codes->most);
  codes->factor = LoadInt16(narrow.factor + channel);
  codes->bias = LoadInt16(narrow.bias + channel);
  codes->step = simd::RoundingStepI16(narrow.shift);
  if (codes->may_fill != 0) {
    // The shift then rounds down, so half a step is added here.
    const v128_t half = wasm_i16x8_splat(1 << (kNarrowFullShift - 1));
    const v128_t bias = wasm_i16x8_add_sat(codes->bias, half);
    if (wasm_i16x8_all_true(wasm_i16x8_eq(wasm_i16x8_sub(bias, half), codes->bias))) {
      codes->bias = bias;
      codes->form = CodeForm::kFillsInt16;
    }
  }
  return true;
}

/// Sets up the form in float32; returns false if some channel has none.
RQ_INLINE bool SetInFloat(const RequantizeParams& r, int32_t channel, BlockCodes* codes) {
  if (r.float_scale == nullptr) return false;
  codes->form = CodeForm::kInFloat;
  codes->sum_bias = wasm_i16x8_sub(codes->middle_bias,
                                   wasm_i16x8_mul(codes->own, wasm_i16x8_splat(kNarrowMiddle)));
  codes->float_scale0 = wasm_v128_load(r.float_scale + channel);
  codes->float_scale1 = wasm_v128_load(r.float_scale + channel + 4);
  codes->float_bias0 = wasm_v128_load(r.float_bias + channel);
  codes->float_bias1 = wasm_v128_load(r.float_bias + channel + 4);
  return wasm_i32x4_bitmask(wasm_v128_or(codes->float_scale0, codes->float_scale1)) == 0;
}

/// -1 in every lane where sums that begin with `base`, int32, fit int16.
RQ_INLINE v128_t BaseFits(const NarrowSegment& segment, v128_t base) {
  return wasm_v128_and(wasm_i32x4_ge(base, wasm_i32x4_splat(segment.least_base)),
                       wasm_i32x4_le(base, wasm_i32x4_splat(segment.most_base)));
}

/// Sets the initial sums of a block; returns whether its sums then fit int16.
RQ_INLINE bool SetBase(const NarrowSegment& segment, const int32_t* base, BlockCodes* codes) {
  const v128_t base0 = wasm_v128_load(base), base1 = wasm_v128_load(base + 4);
  const v128_t low = wasm_i32x4_splat(0xFFFF);
  codes->base0 = wasm_v128_and(base0, low);
  codes->base1 = wasm_v128_and(base1, low);
  codes->base = wasm_i16x8_narrow_i32x4(base0, base1);
  return wasm_i32x4_all_true(wasm_v128_and(BaseFits(segment, base0), BaseFits(segment, base1)));
}

/// Fills `codes` for a block; returns whether int16 sums can be made codes.
RQ_INLINE bool SetCodes(const ConvQ8Params* p, const NarrowSegment& segment, const int32_t* base,
                        int32_t channel, BlockCodes* codes) {
  if (!SetBase(segment, base, codes)) return false;
  const RequantizeParams& r = p->requantize;
  codes->form = CodeForm::kIn16Bits;
  codes->sum_bias = codes->middle_bias;
  codes->of_int32 = 0;
  return SetIn16Bits(r.narrow, channel, codes) || SetInFloat(r, channel, codes);
}

/// Fills `codes` for a block whose sums of segments fit int16 each, `steps` steps in all.
RQ_INLINE bool SetCodes(const ConvQ8Params* p, const NarrowSegment& segment, int32_t steps,
                        const int32_t* base, int32_t channel, BlockCodes* codes) {
  if (segment.steps >= steps && SetCodes(p, segment, base, channel, codes)) return true;
  codes->base0 = codes->base1 = wasm_i32x4_splat(0);
  codes->of_int32 = 1;
  return SetInFloat(p->requantize, channel, codes);
}

/// Fills in what does not change from block to block.
RQ_INLINE void SetOutput(const ConvQ8Params* p, BlockCodes* codes) {
  const bool adds = p->residual != nullptr;
  const auto splat16 = [](int32_t value) __attribute__((always_inline)) {
    return wasm_i16x8_splat(static_cast<int16_t>(value));
  };
  const RequantizeParams& own = p->requantize;
  const QAddParams& add = p->addition;
  const int32_t lo = adds ? add.lo : own.lo, hi = adds ? add.hi : own.hi;
  const int32_t own_middle = own.lo + kNarrowMiddle;
  const int32_t middle = adds ? add.narrow.middle : own_middle;
  const auto splat8 = [](int32_t value) __attribute__((always_inline)) {
    return wasm_i8x16_splat(static_cast<int8_t>(value));
  };
  codes->may_fill =
      adds && own.hi - own.lo == 2 * kNarrowMiddle - 1 && own.narrow.shift == kNarrowFullShift;
  codes->float_lo = splat8(own.lo);
  codes->float_most = splat16(own.hi - own.lo);
  codes->lo = splat8(lo - middle);
  codes->hi = splat8(hi - middle);
  codes->middle = splat8(middle);
  if (!adds) return;
  const bool first = p->residual_first != 0;
  const int32_t own_factor = first ? add.narrow.b : add.narrow.a;
  const int32_t factor = first ? add.narrow.a : add.narrow.b;
  const int32_t own_zero = first ? add.b_zero : add.a_zero;
  const int32_t zero = first ? add.a_zero : add.b_zero;
  // A signed byte xor 128 is that byte plus 128.
  const int32_t flip = (first ? add.a_signed : add.b_signed) != 0 ? 128 : 0;
  codes->own_lo = splat16(own.lo - own_middle);
  codes->own_hi = splat16(own.hi - own_middle);
  codes->own = splat16(own_factor);
  codes->other = splat16(factor);
  codes->flip = splat16(flip);
  const int32_t bias = add.narrow.bias - own_zero * own_factor - (zero + flip) * factor;
  codes->middle_bias = codes->sum_bias = splat16(bias + own_middle * own_factor);
  codes->sum_step = simd::RoundingStepI16(add.narrow.shift);
}

}  // namespace requant::conv
