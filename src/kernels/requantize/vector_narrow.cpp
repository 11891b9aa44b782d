// Few codes: one float32 product and sum, proved to give every code
// (numeric/requantize_narrow.cpp).
#include "kernels/requantize/store.h"

namespace requant {
namespace {

RQ_INLINE v128_t Quad(const int32_t* acc, v128_t scale, v128_t bias) {
  return simd::TruncInRange(
      wasm_f32x4_add(wasm_f32x4_mul(wasm_f32x4_convert_i32x4(wasm_v128_load(acc)), scale), bias));
}

/// False when one of the eight channels has no such form.
RQ_INLINE bool Block(const int32_t* acc, int32_t acc_stride, int32_t rows, int32_t c,
                     const RequantizeParams& p, int32_t lo, const Store& s) {
  const v128_t scale0 = wasm_v128_load(p.narrow.float_scale + c);
  const v128_t scale1 = wasm_v128_load(p.narrow.float_scale + c + 4);
  const v128_t bias0 = wasm_v128_load(p.narrow.float_bias + c);
  const v128_t bias1 = wasm_v128_load(p.narrow.float_bias + c + 4);
  if (wasm_i32x4_bitmask(wasm_v128_or(scale0, scale1)) != 0) return false;
  const v128_t least = wasm_i16x8_splat(static_cast<int16_t>(lo));
  ForRows(
      acc, acc_stride, rows, s, [&](const int32_t* a) __attribute__((always_inline)) {
        return wasm_i16x8_add_sat(
            wasm_i16x8_narrow_i32x4(Quad(a, scale0, bias0), Quad(a + 4, scale1, bias1)), least);
      });
  return true;
}

}  // namespace
}  // namespace requant

void rq_requantize_narrow(const int32_t* acc, int32_t acc_stride, int32_t rows,
                          int32_t channel_begin, int32_t channels,
                          const requant::RequantizeParams* requantize, void* output,
                          int32_t output_stride, int32_t output_signed) {
  using namespace requant;
  const RequantizeParams& p = *requantize;
  Store s = Store::Of(p, output_stride, output_signed);
  for (int32_t c = 0; c < channels; c += 8) {
    s.output = static_cast<uint8_t*>(output) + c;
    s.channels = channels - c;
    if (p.narrow.shift == 0 ||
        !Block(acc + c, acc_stride, rows, channel_begin + c, p, p.lo + s.bias, s)) {
      rq_requantize_rows(acc + c, acc_stride, rows, channel_begin + c,
                         s.channels < 8 ? s.channels : 8, requantize, s.output, output_stride,
                         output_signed);
    }
  }
}
