// The vector rows, four or eight numbers at a time.
#include "base/simd.h"
#include "kernels/bytes_simd.h"
#include "kernels/token_codes/kernel.h"

using namespace requant;

void rq_encode_tokens(const TokenCodesParams* p) {
  for (size_t r = 0; r < p->rows; ++r) {
    const float* x =
        reinterpret_cast<const float*>(static_cast<const uint8_t*>(p->in) + r * p->in_row_stride);
    float* scale = reinterpret_cast<float*>(static_cast<uint8_t*>(p->out) + r * p->out_row_stride);
    uint8_t* codes = reinterpret_cast<uint8_t*>(scale + 1);
    v128_t most = wasm_f32x4_splat(0);
    for (size_t i = 0; i < p->width; i += 4) {
      const int32_t left = static_cast<int32_t>(p->width - i);
      most = wasm_f32x4_max(most, wasm_f32x4_abs(simd::LoadPartial(x + i, left)));
    }
    const float largest = simd::Largest(most);
    const v128_t inverse = wasm_f32x4_splat(largest == 0 ? 0 : 127.0F / largest);
    *scale = largest / 127.0F;
    for (size_t i = 0; i < p->width; i += 4) {
      const v128_t part = simd::LoadPartial(x + i, static_cast<int32_t>(p->width - i));
      const v128_t wide = simd::SymmetricCodes(part, inverse);
      const v128_t narrow = wasm_i16x8_narrow_i32x4(wide, wide);
      wasm_v128_store32_lane(codes + i, wasm_i8x16_narrow_i16x8(narrow, narrow), 0);
    }
  }
}

void rq_decode_tokens(const TokenCodesParams* p) {
  for (size_t r = 0; r < p->rows; ++r) {
    const float* scale =
        reinterpret_cast<const float*>(static_cast<const uint8_t*>(p->in) + r * p->in_row_stride);
    const int8_t* codes = reinterpret_cast<const int8_t*>(scale + 1);
    float* x = reinterpret_cast<float*>(static_cast<uint8_t*>(p->out) + r * p->out_row_stride);
    const v128_t factor = wasm_v128_load32_splat(scale);
    size_t i = 0;
    for (; i + 8 <= p->width; i += 8) {
      const v128_t wide = wasm_i16x8_load8x8(codes + i);
      const v128_t low = wasm_f32x4_convert_i32x4(wasm_i32x4_extend_low_i16x8(wide));
      const v128_t high = wasm_f32x4_convert_i32x4(wasm_i32x4_extend_high_i16x8(wide));
      wasm_v128_store(x + i, wasm_f32x4_mul(low, factor));
      wasm_v128_store(x + i + 4, wasm_f32x4_mul(high, factor));
    }
    for (; i < p->width; ++i) x[i] = static_cast<float>(codes[i]) * *scale;
  }
}
