// Eight channels at a time, all rows of the block: the constants of the channels stay in registers.
//
// Fixed point, ties up, two exact vector forms (numeric/requantize_prepare.cpp decides):
//
// kDouble: x = acc * (M * 2^-t) is exact in float64 while |acc * M| < 2^52. Adding 2^-(t+1), half a
//   unit of x's last place, turns every tie into "just above" and moves nothing across another
//   rounding boundary; adding 1.5 * 2^52 then rounds to an integer and leaves it, in two's
//   complement, in the low word.
// kShift: P = (acc * 2^(T - t)) * M in 64 bits; P + 2^62 + 2^(T-1) is positive, so a logical shift
// by
//   T (the arithmetic one is slow on x86) gives round(P / 2^T) + 2^(62-T), of which the low word
//   is kept and the bias's low word taken off again.
//
// Float: half_even(float(acc) * scale); after the clamp the value is small, so adding 1.5 * 2^23
// rounds it and leaves the integer in the low bits (the trick of XNNPACK's "fmagic" kernels).
#include "kernels/requantize/kernel.h"
#include "kernels/simd.h"

namespace requant {
namespace {

struct Store {
  v128_t zero_point, lo, hi;
  uint8_t* output;
  int32_t stride, channels, is_signed;
};

/// Two vectors of int32 -> + zero point -> 8 clamped bytes.
RQ_INLINE void StoreRow(const Store& s, int32_t row, v128_t low, v128_t high) {
  const v128_t wide = wasm_i16x8_add_sat(wasm_i16x8_narrow_i32x4(low, high), s.zero_point);
  v128_t bytes;
  if (s.is_signed) {
    bytes = wasm_i8x16_narrow_i16x8(wide, wide);
    bytes = wasm_i8x16_min(wasm_i8x16_max(bytes, s.lo), s.hi);
  } else {
    bytes = wasm_u8x16_narrow_i16x8(wide, wide);
    bytes = wasm_u8x16_min(wasm_u8x16_max(bytes, s.lo), s.hi);
  }
  uint8_t* out = s.output + static_cast<ptrdiff_t>(row) * s.stride;
  if (s.channels >= 8) {
    wasm_v128_store64_lane(out, bytes, 0);
  } else {
    simd::StorePartialBytes(out, bytes, s.channels);
  }
}

/// The low words of two pairs of 64-bit lanes.
RQ_INLINE v128_t LowWords(v128_t a, v128_t b) { return wasm_i32x4_shuffle(a, b, 0, 2, 4, 6); }

RQ_INLINE v128_t DoubleStep(v128_t acc, v128_t scale, v128_t tie) {
  const v128_t magic = wasm_f64x2_splat(6755399441055744.0);  // 1.5 * 2^52
  const v128_t x = wasm_f64x2_mul(wasm_f64x2_convert_low_i32x4(acc), scale);
  return wasm_f64x2_add(wasm_f64x2_add(x, tie), magic);
}

RQ_INLINE v128_t DoubleQuad(v128_t acc, v128_t scale0, v128_t scale1, v128_t tie0, v128_t tie1) {
  const v128_t upper = wasm_i32x4_shuffle(acc, acc, 2, 3, 2, 3);
  return LowWords(DoubleStep(acc, scale0, tie0), DoubleStep(upper, scale1, tie1));
}

RQ_INLINE v128_t ShiftQuad(v128_t acc, v128_t pre, v128_t multiplier, v128_t rounding,
                           int32_t shift, v128_t bias) {
  const v128_t x = wasm_i32x4_mul(acc, pre);
  const v128_t p0 = wasm_i64x2_add(wasm_i64x2_extmul_low_i32x4(x, multiplier), rounding);
  const v128_t p1 = wasm_i64x2_add(wasm_i64x2_extmul_high_i32x4(x, multiplier), rounding);
  const v128_t words = LowWords(wasm_u64x2_shr(p0, static_cast<uint32_t>(shift)),
                                wasm_u64x2_shr(p1, static_cast<uint32_t>(shift)));
  return wasm_i32x4_sub(words, bias);
}

RQ_INLINE v128_t FloatQuad(v128_t acc, v128_t scale, v128_t lo, v128_t hi) {
  const v128_t magic = wasm_f32x4_splat(12582912.0f);  // 1.5 * 2^23
  const v128_t x = wasm_f32x4_mul(wasm_f32x4_convert_i32x4(acc), scale);
  const v128_t rounded = wasm_f32x4_add(simd::ClampF32(x, lo, hi), magic);
  return wasm_i32x4_sub(rounded, wasm_i32x4_splat(0x4B400000));
}

/// Channels [c, c + 8).
RQ_INLINE void Block(const int32_t* acc, int32_t acc_stride, int32_t rows, int32_t c,
                     const RequantizeParams& p, const Store& s) {
  if (p.mode == RequantizeMode::kFloat) {
    const v128_t lo = wasm_f32x4_splat(static_cast<float>(p.lo - p.zero_point));
    const v128_t hi = wasm_f32x4_splat(static_cast<float>(p.hi - p.zero_point));
    const v128_t scale0 = wasm_v128_load(p.scale + c);
    const v128_t scale1 = wasm_v128_load(p.scale + c + 4);
    for (int32_t r = 0; r < rows; ++r, acc += acc_stride) {
      StoreRow(s, r, FloatQuad(wasm_v128_load(acc), scale0, lo, hi),
               FloatQuad(wasm_v128_load(acc + 4), scale1, lo, hi));
    }
    return;
  }
  if (p.mode == RequantizeMode::kUpward && p.path == RequantizePath::kDouble) {
    const double* scale = p.exact_scale + c;
    const double* tie = p.exact_tie + c;
    const v128_t scale0 = wasm_v128_load(scale), scale1 = wasm_v128_load(scale + 2);
    const v128_t scale2 = wasm_v128_load(scale + 4), scale3 = wasm_v128_load(scale + 6);
    const v128_t tie0 = wasm_v128_load(tie), tie1 = wasm_v128_load(tie + 2);
    const v128_t tie2 = wasm_v128_load(tie + 4), tie3 = wasm_v128_load(tie + 6);
    for (int32_t r = 0; r < rows; ++r, acc += acc_stride) {
      StoreRow(s, r, DoubleQuad(wasm_v128_load(acc), scale0, scale1, tie0, tie1),
               DoubleQuad(wasm_v128_load(acc + 4), scale2, scale3, tie2, tie3));
    }
    return;
  }
  if (p.mode == RequantizeMode::kUpward && p.path == RequantizePath::kShift) {
    const int32_t shift = p.common_shift;
    const v128_t rounding = wasm_i64x2_splat((int64_t{1} << 62) + (int64_t{1} << (shift - 1)));
    const v128_t bias = wasm_i32x4_splat(static_cast<int32_t>(uint64_t{1} << (62 - shift)));
    const v128_t pre0 = wasm_v128_load(p.pre_multiplier + c);
    const v128_t pre1 = wasm_v128_load(p.pre_multiplier + c + 4);
    const v128_t m0 = wasm_v128_load(p.multiplier + c);
    const v128_t m1 = wasm_v128_load(p.multiplier + c + 4);
    for (int32_t r = 0; r < rows; ++r, acc += acc_stride) {
      StoreRow(s, r, ShiftQuad(wasm_v128_load(acc), pre0, m0, rounding, shift, bias),
               ShiftQuad(wasm_v128_load(acc + 4), pre1, m1, rounding, shift, bias));
    }
    return;
  }
  for (int32_t r = 0; r < rows; ++r, acc += acc_stride) {
    uint8_t* out = s.output + static_cast<ptrdiff_t>(r) * s.stride;
    for (int32_t i = 0; i < s.channels && i < 8; ++i) {
      out[i] = static_cast<uint8_t>(ApplyRequantize(acc[i], p, c + i));
    }
  }
}

}  // namespace
}  // namespace requant

void rq_requantize_rows(const int32_t* acc, int32_t acc_stride, int32_t rows, int32_t channel_begin,
                        int32_t channels, const requant::RequantizeParams* requantize, void* output,
                        int32_t output_stride, int32_t output_signed) {
  using namespace requant;
  const RequantizeParams& p = *requantize;
  Store s;
  s.zero_point = wasm_i16x8_splat(static_cast<int16_t>(p.zero_point));
  s.lo = wasm_i8x16_splat(static_cast<int8_t>(p.lo));
  s.hi = wasm_i8x16_splat(static_cast<int8_t>(p.hi));
  s.stride = output_stride;
  s.is_signed = output_signed;
  for (int32_t c = 0; c < channels; c += 8) {
    s.output = static_cast<uint8_t*>(output) + c;
    s.channels = channels - c;
    Block(acc + c, acc_stride, rows, channel_begin + c, p, s);
  }
}
