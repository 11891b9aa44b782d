// Requantizes eight channels at a time, two rows at once; the constants of the channels stay in
// registers.
//
// Fixed point, ties up, has two exact vector forms (numeric/requantize_prepare.cpp chooses):
//
// kDouble: x = acc * (M * 2^-t) is exact in float64 while |acc * M| < 2^53. Adding 1.5 * 2^52
// rounds it half to even and leaves the integer, in two's complement, in the low word. Where the
// bound on acc allows x to be a tie at all, 2^-(t+1), half a unit of x's last place, is added
// first: it turns a tie into "just above" and moves nothing else across a rounding boundary (and
// needs 2^52).
//
// kShift: T is the largest t of the eight channels, at least 32, and P = (acc * 2^(T - t)) * M in
// 64 bits, which takes a bound on acc (else the eight channels are computed one by one). The high
// word of P + 2^(T-1), shifted right by T - 32 (arithmetically, and on 32-bit lanes, since the
// 64-bit form is slow on x86), is floor(P / 2^T + 1/2).
//
// Few codes, and fixed point with simple multipliers, take one float32 product and sum, which give
// every code, fused or not (numeric/requantize_narrow.cpp, numeric/requantize_prepare.cpp).
//
// Float: half_even(float(acc) * scale). The value is small, or clamped first, so that adding 1.5 *
// 2^23 rounds it and leaves the integer in the low bits (XNNPACK's "fmagic" kernels).
#include "kernels/requantize/kernel.h"

#include "kernels/requantize/codes_f32.h"
#include "kernels/requantize/store.h"

namespace requant {
namespace {

/// The low words of two pairs of 64-bit lanes.
RQ_INLINE v128_t LowWords(v128_t a, v128_t b) { return wasm_i32x4_shuffle(a, b, 0, 2, 4, 6); }

/// acc[0..1] * scale + addend; the product is exact.
RQ_INLINE v128_t DoubleMulAdd(const int32_t* acc, v128_t scale, v128_t addend) {
  return simd::MulAddExactF64(wasm_f64x2_convert_low_i32x4(wasm_v128_load64_zero(acc)), scale,
                              addend);
}

RQ_INLINE v128_t ShiftQuad(const int32_t* acc, v128_t pre, v128_t multiplier, v128_t rounding,
                           uint32_t shift) {
  const v128_t x = wasm_i32x4_mul(wasm_v128_load(acc), pre);
  const v128_t p0 = wasm_i64x2_add(wasm_i64x2_extmul_low_i32x4(x, multiplier), rounding);
  const v128_t p1 = wasm_i64x2_add(wasm_i64x2_extmul_high_i32x4(x, multiplier), rounding);
  return wasm_i32x4_shr(wasm_i32x4_shuffle(p0, p1, 1, 3, 5, 7), shift);
}

RQ_INLINE v128_t FloatProduct(const int32_t* acc, v128_t scale) {
  return wasm_f32x4_mul(wasm_f32x4_convert_i32x4(wasm_v128_load(acc)), scale);
}

RQ_INLINE v128_t FloatRound(v128_t x, v128_t magic, v128_t base) {
  return wasm_i32x4_sub(wasm_f32x4_add(x, magic), base);
}

RQ_INLINE void FloatBlock(const int32_t* acc, int32_t acc_stride, int32_t rows, int32_t c,
                          const RequantizeParams& p, int32_t zero_point, const Store& s) {
  const v128_t scale0 = wasm_v128_load(p.scale + c);
  const v128_t scale1 = wasm_v128_load(p.scale + c + 4);
  const auto count = static_cast<size_t>(rows);
  const v128_t magic = simd::LoopConstant(12582912.0f, count);  // 1.5 * 2^23
  const v128_t base = wasm_i32x4_splat(0x4B400000 - zero_point);
  if (p.small_products) {
    ForRows(
        acc, acc_stride, rows, s, [&](const int32_t* a) __attribute__((always_inline)) {
          return wasm_i16x8_narrow_i32x4(FloatRound(FloatProduct(a, scale0), magic, base),
                                         FloatRound(FloatProduct(a + 4, scale1), magic, base));
        });
    return;
  }
  const v128_t lo = simd::LoopConstant(-1024.0f, count), hi = simd::LoopConstant(1024.0f, count);
  ForRows(
      acc, acc_stride, rows, s, [&](const int32_t* a) __attribute__((always_inline)) {
        return wasm_i16x8_narrow_i32x4(
            FloatRound(simd::ClampF32(FloatProduct(a, scale0), lo, hi), magic, base),
            FloatRound(simd::ClampF32(FloatProduct(a + 4, scale1), lo, hi), magic, base));
      });
}

/// The zero point is part of the constant that rounds; where no tie is left, the constant may be
/// odd.
RQ_INLINE void DoubleBlock(const int32_t* acc, int32_t acc_stride, int32_t rows, int32_t c,
                           const RequantizeParams& p, int32_t zero_point, const Store& s) {
  const double* scale = p.exact_scale + c;
  const v128_t scale0 = wasm_v128_load(scale), scale1 = wasm_v128_load(scale + 2);
  const v128_t scale2 = wasm_v128_load(scale + 4), scale3 = wasm_v128_load(scale + 6);
  const v128_t round = wasm_f64x2_splat(6755399441055744.0 + zero_point);  // 1.5 * 2^52 + zero
  if (p.exact_tie == nullptr) {
    ForRows(
        acc, acc_stride, rows, s, [&](const int32_t* a) __attribute__((always_inline)) {
          return wasm_i16x8_narrow_i32x4(
              LowWords(DoubleMulAdd(a, scale0, round), DoubleMulAdd(a + 2, scale1, round)),
              LowWords(DoubleMulAdd(a + 4, scale2, round), DoubleMulAdd(a + 6, scale3, round)));
        });
    return;
  }
  const double* tie = p.exact_tie + c;
  const v128_t tie0 = wasm_v128_load(tie), tie1 = wasm_v128_load(tie + 2);
  const v128_t tie2 = wasm_v128_load(tie + 4), tie3 = wasm_v128_load(tie + 6);
  ForRows(
      acc, acc_stride, rows, s, [&](const int32_t* a) __attribute__((always_inline)) {
        return wasm_i16x8_narrow_i32x4(
            LowWords(wasm_f64x2_add(DoubleMulAdd(a, scale0, tie0), round),
                     wasm_f64x2_add(DoubleMulAdd(a + 2, scale1, tie1), round)),
            LowWords(wasm_f64x2_add(DoubleMulAdd(a + 4, scale2, tie2), round),
                     wasm_f64x2_add(DoubleMulAdd(a + 6, scale3, tie3), round)));
      });
}

/// Requantizes eight channels in float32; returns false when one of them has no such form.
RQ_INLINE bool Float32Block(const int32_t* acc, int32_t acc_stride, int32_t rows, int32_t c,
                            const RequantizeParams& p, const Store& s) {
  const v128_t scale0 = wasm_v128_load(p.float_scale + c);
  const v128_t scale1 = wasm_v128_load(p.float_scale + c + 4);
  const v128_t bias0 = wasm_v128_load(p.float_bias + c);
  const v128_t bias1 = wasm_v128_load(p.float_bias + c + 4);
  if (wasm_i32x4_bitmask(wasm_v128_or(scale0, scale1)) != 0) return false;
  const v128_t least = wasm_i16x8_splat(static_cast<int16_t>(p.lo + s.bias));
  ForRows(
      acc, acc_stride, rows, s, [&](const int32_t* a) __attribute__((always_inline)) {
        return wasm_i16x8_add_sat(
            wasm_i16x8_narrow_i32x4(CodesF32(wasm_v128_load(a), scale0, bias0),
                                    CodesF32(wasm_v128_load(a + 4), scale1, bias1)),
            least);
      });
  return true;
}

RQ_INLINE void ScalarBlock(const int32_t* acc, int32_t acc_stride, int32_t rows, int32_t c,
                           const RequantizeParams& p, const Store& s) {
  uint8_t* out = s.output;
  for (int32_t r = 0; r < rows; ++r, acc += acc_stride, out += s.stride) {
    for (int32_t i = 0; i < s.channels && i < 8; ++i) {
      out[i] = static_cast<uint8_t>(ApplyRequantize(acc[i], p, c + i));
    }
  }
}

RQ_INLINE int32_t ScaleUp(const RequantizeParams& p, int32_t c, int32_t common) {
  return p.multiplier[c] == 0 ? 0 : 1 << (common - p.shift[c]);
}

/// Requantizes eight channels by a common shift; returns false when they have none.
RQ_INLINE bool ShiftBlock(const int32_t* acc, int32_t acc_stride, int32_t rows, int32_t c,
                          const RequantizeParams& p, int32_t zero_point, const Store& s) {
  int32_t common = 32;
  for (int32_t i = c; i < c + 8; ++i) {
    if (p.multiplier[i] != 0 && p.shift[i] > common) common = p.shift[i];
  }
  for (int32_t i = c; i < c + 8; ++i) {
    if (p.multiplier[i] != 0 && common - p.shift[i] > p.headroom[i]) return false;
  }
  const uint32_t shift = static_cast<uint32_t>(common - 32);
  const v128_t rounding = wasm_i64x2_splat(int64_t{1} << (common - 1));
  const v128_t pre0 = wasm_i32x4_make(ScaleUp(p, c, common), ScaleUp(p, c + 1, common),
                                      ScaleUp(p, c + 2, common), ScaleUp(p, c + 3, common));
  const v128_t pre1 = wasm_i32x4_make(ScaleUp(p, c + 4, common), ScaleUp(p, c + 5, common),
                                      ScaleUp(p, c + 6, common), ScaleUp(p, c + 7, common));
  const v128_t zero = wasm_i16x8_splat(static_cast<int16_t>(zero_point));
  const v128_t m0 = wasm_v128_load(p.multiplier + c);
  const v128_t m1 = wasm_v128_load(p.multiplier + c + 4);
  ForRows(
      acc, acc_stride, rows, s, [&](const int32_t* a) __attribute__((always_inline)) {
        return wasm_i16x8_add_sat(
            wasm_i16x8_narrow_i32x4(ShiftQuad(a, pre0, m0, rounding, shift),
                                    ShiftQuad(a + 4, pre1, m1, rounding, shift)),
            zero);
      });
  return true;
}

}  // namespace
}  // namespace requant

void rq_requantize_rows(const int32_t* acc, int32_t acc_stride, int32_t rows, int32_t channel_begin,
                        int32_t channels, const requant::RequantizeParams* requantize, void* output,
                        int32_t output_stride, int32_t output_signed) {
  using namespace requant;
  const RequantizeParams& p = *requantize;
  Store s = Store::Of(p, output_stride, output_signed);
  const int32_t zero_point = p.zero_point + s.bias;
  const bool fixed = p.mode == RequantizeMode::kUpward;
  for (int32_t c = 0; c < channels; c += 8) {
    s.output = static_cast<uint8_t*>(output) + c;
    s.channels = channels - c;
    if (p.float_scale != nullptr &&
        Float32Block(acc + c, acc_stride, rows, channel_begin + c, p, s)) {
      continue;
    }
    if (p.mode == RequantizeMode::kFloat) {
      FloatBlock(acc + c, acc_stride, rows, channel_begin + c, p, zero_point, s);
    } else if (fixed && p.path == RequantizePath::kDouble) {
      DoubleBlock(acc + c, acc_stride, rows, channel_begin + c, p, zero_point, s);
    } else if (!fixed || p.path != RequantizePath::kShift ||
               !ShiftBlock(acc + c, acc_stride, rows, channel_begin + c, p, zero_point, s)) {
      ScalarBlock(acc + c, acc_stride, rows, channel_begin + c, p, s);
    }
  }
}
