// The vector rows, four numbers at a time, in the module of the operators.
#include "base/simd.h"
#include "kernels/attention_codes/kernel.h"
#include "kernels/attention_codes/share.h"
#include "kernels/bytes_simd.h"
#include "kernels/lanes_simd.h"

using namespace requant;

namespace {

/// Stores the low bytes of four int32 from 0 to 255.
RQ_INLINE void StoreBytes(uint8_t* out, v128_t x) {
  const v128_t narrow = wasm_i16x8_narrow_i32x4(x, x);
  wasm_v128_store32_lane(out, wasm_u8x16_narrow_i16x8(narrow, narrow), 0);
}

/// Up to four floats at an index; those behind the last column are `other`.
RQ_INLINE v128_t LoadUpTo(const float* row, size_t at, size_t columns, v128_t other) {
  if (at + 4 <= columns) return wasm_v128_load(row + at);
  const int32_t left = static_cast<int32_t>(columns - at);
  const v128_t exists = wasm_i32x4_lt(wasm_i32x4_make(0, 1, 2, 3), wasm_i32x4_splat(left));
  return wasm_v128_bitselect(simd::LoadPartial(row + at, left), other, exists);
}

/// Four floats of a row of tokens less their offsets; 0 behind the last column.
RQ_INLINE v128_t LoadTokens(const AttentionCodesParams* p, const float* row, size_t at) {
  const v128_t none = wasm_f32x4_splat(0);
  const v128_t x = LoadUpTo(row, at, p->columns, none);
  return p->offset ? wasm_f32x4_sub(x, LoadUpTo(p->offset, at, p->columns, none)) : x;
}

/// The shares of four scores less their maximum.
RQ_INLINE v128_t SharesOf(const VectorLanes& l, v128_t x) {
  return simd::RoundToInt(ShareOf(l, x));
}

/// The largest of n floats; NaN if one is.
RQ_INLINE float LargestOf(const float* row, size_t n) {
  const v128_t lowest = wasm_f32x4_splat(-__builtin_inff());
  v128_t a = lowest, b = lowest;
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    a = wasm_f32x4_max(a, wasm_v128_load(row + i));
    b = wasm_f32x4_max(b, wasm_v128_load(row + i + 4));
  }
  for (; i < n; i += 4) a = wasm_f32x4_max(a, LoadUpTo(row, i, n, lowest));
  return simd::Largest(wasm_f32x4_max(a, b));
}

}  // namespace

void rq_code_tokens(const AttentionCodesParams* p) {
  const v128_t zero = wasm_i32x4_splat(p->is_signed != 0 ? 0 : 128);
  for (size_t r = 0; r < p->rows; ++r) {
    const float* in = p->in + r * p->in_row_stride;
    uint8_t* out = p->out + r * p->out_row_stride;
    v128_t most = wasm_f32x4_splat(0);
    for (size_t i = 0; i < p->columns; i += 4) {
      most = wasm_f32x4_max(most, wasm_f32x4_abs(LoadTokens(p, in, i)));
    }
    const float largest = simd::Largest(most);
    const v128_t inverse = wasm_f32x4_splat(largest == 0 ? 0 : 127.0F / largest);
    p->factors[r] = largest / 127.0F;
    for (size_t i = 0; i < p->columns; i += 4) {
      const v128_t code = simd::SymmetricCodes(LoadTokens(p, in, i), inverse);
      StoreBytes(out + i, wasm_v128_and(wasm_i32x4_add(code, zero), wasm_i32x4_splat(255)));
    }
  }
}

void rq_code_shares(const AttentionCodesParams* p) {
  const size_t n = p->columns;
  const VectorLanes l(n);
  for (size_t r = 0; r < p->rows; ++r) {
    const float* in = p->in + r * p->in_row_stride;
    uint8_t* high = p->out + r * p->out_row_stride;
    uint8_t* low = p->low + r * p->out_row_stride;
    const float largest = LargestOf(in, n);
    // infinity - infinity and NaN - NaN are NaN.
    if (largest - largest != 0) {
      for (size_t i = 0; i < n; i += 4) {
        StoreBytes(high + i, wasm_i32x4_splat(0));
        StoreBytes(low + i, wasm_i32x4_splat(0));
      }
      p->factors[r] = largest == -__builtin_inff() ? 0 : __builtin_nanf("");
      continue;
    }
    const v128_t most = wasm_f32x4_splat(largest);
    v128_t sums = wasm_i32x4_splat(0);
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
      const v128_t s0 = SharesOf(l, wasm_f32x4_sub(wasm_v128_load(in + i), most));
      const v128_t s1 = SharesOf(l, wasm_f32x4_sub(wasm_v128_load(in + i + 4), most));
      const v128_t a = wasm_u16x8_narrow_i32x4(s0, s1);
      const v128_t s2 = SharesOf(l, wasm_f32x4_sub(wasm_v128_load(in + i + 8), most));
      const v128_t s3 = SharesOf(l, wasm_f32x4_sub(wasm_v128_load(in + i + 12), most));
      const v128_t b = wasm_u16x8_narrow_i32x4(s2, s3);
      sums = wasm_i32x4_add(sums, wasm_i32x4_add(wasm_i32x4_add(s0, s1), wasm_i32x4_add(s2, s3)));
      const v128_t byte = wasm_i16x8_splat(255);
      wasm_v128_store(high + i,
                      wasm_u8x16_narrow_i16x8(wasm_u16x8_shr(a, 8), wasm_u16x8_shr(b, 8)));
      wasm_v128_store(low + i,
                      wasm_u8x16_narrow_i16x8(wasm_v128_and(a, byte), wasm_v128_and(b, byte)));
    }
    for (; i < n; i += 4) {
      const v128_t x = LoadUpTo(in, i, n, wasm_f32x4_splat(-__builtin_inff()));
      const v128_t share = SharesOf(l, wasm_f32x4_sub(x, most));
      sums = wasm_i32x4_add(sums, share);
      StoreBytes(high + i, wasm_u32x4_shr(share, 8));
      StoreBytes(low + i, wasm_v128_and(share, wasm_i32x4_splat(255)));
    }
    const v128_t wide =
        wasm_i64x2_add(wasm_u64x2_extend_low_u32x4(sums), wasm_u64x2_extend_high_u32x4(sums));
    const int64_t sum = wasm_i64x2_extract_lane(wide, 0) + wasm_i64x2_extract_lane(wide, 1);
    p->factors[r] = 1.0F / static_cast<float>(sum);
  }
}
