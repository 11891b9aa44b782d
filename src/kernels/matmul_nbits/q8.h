#pragma once
// The integer rows: bytes times 4-bit codes by a relaxed dot product, whose second operand has
// seven bits here, so that every machine computes the same. Vector code, freestanding.
#include "kernels/matmul_nbits/blocking.h"
#include "kernels/matmul_nbits/kernel.h"
#include "kernels/simd.h"

namespace requant::nbits {

/// Pairs of products in eight lanes: sums of a chunk fit int16. With the zero point 8 they begin
/// with the share of it that falls to each lane, and on the way additions may wrap: in the end they
/// are sums of 16 products of -127..127 by -8..7.
struct Pairs {
  static constexpr bool kWide = false;
  RQ_INLINE v128_t Add(v128_t acc, v128_t x, v128_t w) {
    return wasm_i16x8_add(acc, simd::DotI8I7(x, w));
  }
  RQ_INLINE v128_t Sum(v128_t acc) { return wasm_i32x4_extadd_pairwise_i16x8(acc); }
};

/// Four products in a lane: one instruction where rq_dot8() is not 0. These sums can begin with the
/// zero point's share.
struct Quads {
  static constexpr bool kWide = true;
  RQ_INLINE v128_t Add(v128_t acc, v128_t x, v128_t w) { return simd::DotI8I7Add(x, w, acc); }
  RQ_INLINE v128_t Sum(v128_t acc) { return acc; }
};

RQ_INLINE float Largest(v128_t x) {
  const v128_t y = wasm_f32x4_max(x, wasm_i32x4_shuffle(x, x, 2, 3, 0, 1));
  return wasm_f32x4_extract_lane(wasm_f32x4_max(y, wasm_i32x4_shuffle(y, y, 1, 0, 3, 2)), 0);
}

RQ_INLINE v128_t Codes(v128_t x, v128_t inverse) {
  const v128_t limit = wasm_f32x4_splat(127.0f);
  const v128_t code = wasm_f32x4_nearest(wasm_f32x4_mul(x, inverse));
  // Saturation makes NaN 0; the bounds keep -128 out.
  return wasm_i32x4_trunc_sat_f32x4(
      wasm_f32x4_max(wasm_f32x4_min(code, limit), wasm_f32x4_neg(limit)));
}

/// One of the `rows` rows of a tile, k padded by 0. Of the tile, four bytes of every row follow
/// each other, so that one pointer walks over all; so do scales and sums. `sums` are those of a
/// chunk's bytes, times `factor`; halves: in two int16, of k's first and last two of every four.
static __attribute__((noinline)) void QuantizeRow(const float* x, int32_t k, int32_t chunk,
                                                  int32_t chunks, int32_t factor, bool halves,
                                                  int32_t rows, int8_t* bytes, float* scales,
                                                  int32_t* sums) {
  for (int32_t c = 0; c < chunks; ++c, k -= chunk, x += chunk) {
    v128_t most = wasm_f32x4_splat(0);
    for (int32_t i = 0; i < chunk && i < k; i += 4) {
      most = wasm_f32x4_max(most, wasm_f32x4_abs(simd::LoadPartialF32(x + i, k - i)));
    }
    const float largest = Largest(most);
    const v128_t inverse = wasm_f32x4_splat(largest == 0 ? 0 : 127.0f / largest);
    v128_t sum = wasm_i32x4_splat(0);
    for (int32_t i = 0; i < chunk; i += 4, bytes += rows * kStep) {
      v128_t code = wasm_i32x4_splat(0);
      if (i < k) code = Codes(simd::LoadPartialF32(x + i, k - i), inverse);
      sum = wasm_i32x4_add(sum, code);
      const v128_t narrow = wasm_i16x8_narrow_i32x4(code, code);
      wasm_v128_store32_lane(bytes, wasm_i8x16_narrow_i16x8(narrow, narrow), 0);
    }
    scales[c * rows] = largest / 127.0f;
    const int32_t low =
        factor * (wasm_i32x4_extract_lane(sum, 0) + wasm_i32x4_extract_lane(sum, 1));
    const int32_t high =
        factor * (wasm_i32x4_extract_lane(sum, 2) + wasm_i32x4_extract_lane(sum, 3));
    sums[c * rows] = halves ? (low & 0xFFFF) | high * 65536 : low + high;
  }
}

/// -zero_point * sum; without zero points -8 * sum is given.
template <bool kZeros>
RQ_INLINE v128_t Correction(v128_t zero, const int32_t* sum) {
  const v128_t sums = wasm_v128_load32_splat(sum);
  if constexpr (kZeros) return wasm_i32x4_mul(zero, sums);
  return sums;
}

/// y + float(product) * (scale of w * scale of a)
RQ_INLINE v128_t AddChunk(v128_t y, v128_t product, v128_t scale, const float* a_scale) {
  return wasm_f32x4_add(y, wasm_f32x4_mul(wasm_f32x4_convert_i32x4(product),
                                          wasm_f32x4_mul(scale, wasm_v128_load32_splat(a_scale))));
}

/// kRows rows times one group; `sums` gets kRows x 8 floats. One row leaves registers free to
/// unroll and to keep them; four run out of them.
template <typename Op, int kRows, bool kZeros>
static __attribute__((noinline)) void Tile(const MatMulNBitsParams* p, const int8_t* a,
                                           const float* a_scales, const int32_t* a_sums,
                                           int32_t chunks, const uint8_t* block, float* sums) {
  constexpr int kUnroll = kRows == 1 ? 4 : 1;  // a chunk has 4 or 8 steps
  const int32_t chunk = Chunk(p->block);
  const v128_t mask = wasm_i8x16_splat(15);
  v128_t y[2];
  RQ_UNROLL for (int i = 0; i < 2; ++i) y[i] = wasm_f32x4_splat(0);
  if (kRows > 1) {
    RQ_UNROLL for (int i = 0; i < 2 * kRows; ++i) wasm_v128_store(sums + i * 4, y[0]);
  }
  for (int32_t c = 0; c < chunks;) {
    const uint8_t* codes = block + HeaderBytes(p->has_zero_points);
    for (int32_t done = 0; done < p->block; done += chunk, ++c) {
      v128_t acc0[kRows], acc1[kRows];
      v128_t zero0 = wasm_i32x4_splat(0), zero1 = zero0;
      if constexpr (kZeros) {
        const v128_t zeros = wasm_u16x8_load8x8(block + kColumns * 4);
        zero0 = wasm_u32x4_extend_low_u16x8(zeros);
        zero1 = wasm_u32x4_extend_high_u16x8(zeros);
      }
      RQ_UNROLL for (int i = 0; i < kRows; ++i) {
        const bool begins = Op::kWide || !kZeros;
        acc0[i] = begins ? Correction<kZeros>(zero0, a_sums + i) : wasm_i32x4_splat(0);
        acc1[i] = begins ? Correction<kZeros>(zero1, a_sums + i) : wasm_i32x4_splat(0);
      }
      for (int32_t k = 0; k < chunk; k += kUnroll * kStep) {
        RQ_UNROLL for (int u = 0; u < kUnroll; ++u) {
          const v128_t both = wasm_v128_load(codes + u * kStepBytes);
          const v128_t w0 = wasm_v128_and(both, mask);
          const v128_t w1 = wasm_v128_and(wasm_u16x8_shr(both, 4), mask);
          RQ_UNROLL for (int i = 0; i < kRows; ++i) {
            const v128_t x = wasm_v128_load32_splat(a + (u * kRows + i) * kStep);
            acc0[i] = Op::Add(acc0[i], x, w0);
            acc1[i] = Op::Add(acc1[i], x, w1);
          }
        }
        codes += kUnroll * kStepBytes;
        a += kUnroll * kRows * kStep;
      }
      const v128_t scale0 = wasm_v128_load(block), scale1 = wasm_v128_load(block + 16);
      RQ_UNROLL for (int i = 0; i < kRows; ++i) {
        float* out = sums + i * kColumns;
        if (kRows > 1) {
          y[0] = wasm_v128_load(out);
          y[1] = wasm_v128_load(out + 4);
        }
        v128_t sum0 = Op::Sum(acc0[i]), sum1 = Op::Sum(acc1[i]);
        if (!Op::kWide && kZeros) {
          sum0 = wasm_i32x4_add(sum0, Correction<kZeros>(zero0, a_sums + i));
          sum1 = wasm_i32x4_add(sum1, Correction<kZeros>(zero1, a_sums + i));
        }
        y[0] = AddChunk(y[0], sum0, scale0, a_scales + i);
        y[1] = AddChunk(y[1], sum1, scale1, a_scales + i);
        if (kRows > 1) {
          wasm_v128_store(out, y[0]);
          wasm_v128_store(out + 4, y[1]);
        }
      }
      a_sums += kRows;
      a_scales += kRows;
    }
    block += BlockBytes(p->block, p->has_zero_points);
  }
  if (kRows == 1) {
    wasm_v128_store(sums, y[0]);
    wasm_v128_store(sums + 4, y[1]);
  }
}

RQ_INLINE void StoreRows(const MatMulNBitsParams* p, const float* sums, int32_t count, int32_t row,
                         int32_t column) {
  const int32_t left = p->n - column;
  float* out = p->out + static_cast<ptrdiff_t>(row) * p->n + column;
  for (int32_t r = 0; r < count; ++r, out += p->n, sums += kColumns) {
    simd::StorePartialF32(out, wasm_v128_load(sums), left);
    if (left > 4) simd::StorePartialF32(out + 4, wasm_v128_load(sums + 4), left - 4);
  }
}

template <typename Op, bool kZeros>
RQ_INLINE void MultiplyBy(const MatMulNBitsParams* p) {
  const int32_t blocks = Blocks(p->k, p->block), chunk = Chunk(p->block);
  const int32_t chunks = blocks * (p->block / chunk), most = RowsInPanel(p->rows);
  const ptrdiff_t lda = static_cast<ptrdiff_t>(blocks) * p->block;
  const ptrdiff_t group_bytes = blocks * BlockBytes(p->block, p->has_zero_points);
  float* tile = static_cast<float*>(p->workspace);
  float* scales = tile + 4 * kColumns;
  int32_t* sums = reinterpret_cast<int32_t*>(scales + static_cast<ptrdiff_t>(most) * chunks);
  int8_t* bytes = reinterpret_cast<int8_t*>(sums + static_cast<ptrdiff_t>(most) * chunks);
  for (int32_t row = 0; row < p->rows; row += most) {
    const int32_t count = p->rows - row < most ? p->rows - row : most;
    // Tiles of four rows, then of one.
    for (ptrdiff_t r = 0; r < count; ++r) {
      const bool four = r < count / 4 * 4;
      const ptrdiff_t first = four ? r / 4 * 4 : r, within = r - first;
      QuantizeRow(p->a + (row + r) * p->k, p->k, chunk, chunks, kZeros ? -1 : -8,
                  !Op::kWide && !kZeros, four ? 4 : 1, bytes + first * lda + within * kStep,
                  scales + first * chunks + within, sums + first * chunks + within);
    }
    for (int32_t group = p->begin; group < p->end; ++group) {
      const uint8_t* block = static_cast<const uint8_t*>(p->weights) + group * group_bytes;
      ptrdiff_t r = 0;
      for (; r + 4 <= count; r += 4) {
        Tile<Op, 4, kZeros>(p, bytes + r * lda, scales + r * chunks, sums + r * chunks, chunks,
                            block, tile);
        StoreRows(p, tile, 4, row + static_cast<int32_t>(r), group * kColumns);
      }
      for (; r < count; ++r) {
        Tile<Op, 1, kZeros>(p, bytes + r * lda, scales + r * chunks, sums + r * chunks, chunks,
                            block, tile);
        StoreRows(p, tile, 1, row + static_cast<int32_t>(r), group * kColumns);
      }
    }
  }
}

template <typename Op>
RQ_INLINE void Multiply(const MatMulNBitsParams* p) {
  if (p->has_zero_points != 0) {
    MultiplyBy<Op, true>(p);
  } else {
    MultiplyBy<Op, false>(p);
  }
}

}  // namespace requant::nbits
