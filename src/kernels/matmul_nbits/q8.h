#pragma once
// The integer rows: bytes times 4-bit codes by a relaxed dot product. Its second operand has at
// most seven bits here, so every machine computes the same sums. Vector code, freestanding.
#include "base/simd.h"
#include "kernels/bytes_simd.h"
#include "kernels/matmul_nbits/blocking.h"
#include "kernels/matmul_nbits/kernel.h"
#include "kernels/matmul_nbits/store.h"

namespace requant::nbits {

/// Sums pairs of products in eight int16 lanes, which hold the sums of one chunk. When the zero
/// point is 8, each lane begins with its share of the zero point's correction. Additions may wrap
/// on the way; the final sums are of 16 products of -127..127 by -8..7 and fit.
struct Pairs {
  static constexpr bool kWide = false;
  static constexpr int kRowGroups = 1;
  RQ_INLINE v128_t Add(v128_t acc, v128_t x, v128_t w) {
    return wasm_i16x8_add(acc, simd::DotI8I7(x, w));
  }
  RQ_INLINE v128_t Sum(v128_t acc) { return wasm_i32x4_extadd_pairwise_i16x8(acc); }
};

/// Sums four products in each int32 lane, by one instruction where rq_dot8() is not 0. The sums can
/// begin with the zero point's correction.
struct Quads {
  static constexpr bool kWide = true;
  static constexpr int kRowGroups = 2;
  RQ_INLINE v128_t Add(v128_t acc, v128_t x, v128_t w) { return simd::DotI8I7Add(x, w, acc); }
  RQ_INLINE v128_t Sum(v128_t acc) { return acc; }
};

/// Quantizes one row of `a`, with k padded by 0: one scale and one sum for every chunk, `stride`
/// apart. Chunks begin `a_step` bytes apart, and groups of four k `group` bytes apart. A sum adds a
/// chunk's bytes times `factor`. With `halves` it is two int16 in one int32: the low one sums the
/// first two of every four k, the high one the last two.
static __attribute__((noinline)) void QuantizeRow(const float* x, int32_t k, int32_t chunk,
                                                  int32_t chunks, int32_t factor, bool halves,
                                                  int32_t group, ptrdiff_t a_step, int8_t* a,
                                                  float* scales, int32_t* sums, ptrdiff_t stride) {
  for (int32_t c = 0; c < chunks; ++c, k -= chunk, x += chunk, a += a_step) {
    v128_t most = wasm_f32x4_splat(0);
    for (int32_t i = 0; i < chunk && i < k; i += 4) {
      most = wasm_f32x4_max(most, wasm_f32x4_abs(simd::LoadPartial(x + i, k - i)));
    }
    const float largest = simd::Largest(most);
    const v128_t inverse = wasm_f32x4_splat(largest == 0 ? 0 : 127.0f / largest);
    v128_t sum = wasm_i32x4_splat(0);
    int8_t* bytes = a;
    for (int32_t i = 0; i < chunk; i += 4, bytes += group) {
      v128_t code = wasm_i32x4_splat(0);
      if (i < k) code = simd::SymmetricCodes(simd::LoadPartial(x + i, k - i), inverse);
      sum = wasm_i32x4_add(sum, code);
      const v128_t narrow = wasm_i16x8_narrow_i32x4(code, code);
      wasm_v128_store32_lane(bytes, wasm_i8x16_narrow_i16x8(narrow, narrow), 0);
    }
    scales[c * stride] = largest / 127.0f;
    const int32_t low =
        factor * (wasm_i32x4_extract_lane(sum, 0) + wasm_i32x4_extract_lane(sum, 1));
    const int32_t high =
        factor * (wasm_i32x4_extract_lane(sum, 2) + wasm_i32x4_extract_lane(sum, 3));
    sums[c * stride] = halves ? (low & 0xFFFF) | high * 65536 : low + high;
  }
}

/// -zero_point * sum. Without zero points `sum` is -8 * sum already.
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

/// A block's scales and zero points, the latter as int32.
template <bool kZeros>
struct BlockHeader {
  v128_t scale0, scale1, zero0, zero1;

  explicit RQ_MEMBER BlockHeader(const uint8_t* block)
      : scale0(wasm_v128_load(block)), scale1(wasm_v128_load(block + 16)) {
    zero0 = zero1 = wasm_i32x4_splat(0);
    if constexpr (kZeros) {
      const v128_t zeros = wasm_u16x8_load8x8(block + kColumns * 4);
      zero0 = wasm_u32x4_extend_low_u16x8(zeros);
      zero1 = wasm_u32x4_extend_high_u16x8(zeros);
    }
  }
};

template <typename Op, bool kZeros>
RQ_INLINE v128_t Begin(v128_t zero, const int32_t* sum) {
  if constexpr (Op::kWide || !kZeros) return Correction<kZeros>(zero, sum);
  return wasm_i32x4_splat(0);
}
template <typename Op, bool kZeros>
RQ_INLINE v128_t End(v128_t acc, v128_t zero, const int32_t* sum) {
  if constexpr (Op::kWide || !kZeros) return Op::Sum(acc);
  return wasm_i32x4_add(Op::Sum(acc), Correction<kZeros>(zero, sum));
}

/// Multiplies one row by neighboring groups of columns. Two groups share the row's bytes and are
/// two streams of weights for the processor to prefetch: Quads are 1.06 times as fast with two
/// groups, Pairs 0.93 (Zen 5).
template <typename Op, bool kZeros, int kGroups>
static __attribute__((noinline)) void SingleRow(const MatMulNBitsParams* p, const int8_t* a,
                                                const float* a_scales, const int32_t* a_sums,
                                                const uint8_t* block, int32_t row, int32_t column) {
  const int32_t blocks = Blocks(p->k, p->block), chunk = Chunk(p->block);
  const int32_t chunks_of_block = p->block / chunk;
  const ptrdiff_t block_bytes = BlockBytes(p->block, p->has_zero_points);
  const ptrdiff_t group_bytes = blocks * block_bytes;
  const v128_t mask = simd::LoopConstant(int8_t{15}, static_cast<size_t>(p->block));
  v128_t y0[kGroups], y1[kGroups];
  RQ_UNROLL for (int g = 0; g < kGroups; ++g) y0[g] = y1[g] = wasm_f32x4_splat(0);
  const uint8_t* codes = block + HeaderBytes(kZeros);
  int32_t left_of_block = chunks_of_block;
  // A single loop runs over the chunks of all blocks, because most blocks have only one.
  for (int32_t left = blocks * chunks_of_block; left > 0; --left, ++a_scales, ++a_sums) {
    v128_t acc0[kGroups], acc1[kGroups];
    RQ_UNROLL for (int g = 0; g < kGroups; ++g) {
      const BlockHeader<kZeros> header(block + g * group_bytes);
      acc0[g] = Begin<Op, kZeros>(header.zero0, a_sums);
      acc1[g] = Begin<Op, kZeros>(header.zero1, a_sums);
    }
    for (const int8_t* end = a + chunk; a != end; a += 2 * kStep, codes += 2 * kStepBytes) {
      RQ_UNROLL for (int u = 0; u < 2; ++u) {
        const v128_t x = wasm_v128_load32_splat(a + u * kStep);
        RQ_UNROLL for (int g = 0; g < kGroups; ++g) {
          const v128_t both = wasm_v128_load(codes + g * group_bytes + u * kStepBytes);
          acc0[g] = Op::Add(acc0[g], x, wasm_v128_and(both, mask));
          acc1[g] = Op::Add(acc1[g], x, wasm_v128_and(wasm_u16x8_shr(both, 4), mask));
        }
      }
    }
    RQ_UNROLL for (int g = 0; g < kGroups; ++g) {
      const BlockHeader<kZeros> header(block + g * group_bytes);
      y0[g] =
          AddChunk(y0[g], End<Op, kZeros>(acc0[g], header.zero0, a_sums), header.scale0, a_scales);
      y1[g] =
          AddChunk(y1[g], End<Op, kZeros>(acc1[g], header.zero1, a_sums), header.scale1, a_scales);
    }
    if (--left_of_block > 0) continue;
    left_of_block = chunks_of_block;
    block += block_bytes;
    codes = block + HeaderBytes(kZeros);
  }
  RQ_UNROLL for (int g = 0; g < kGroups; ++g) {
    StoreColumns(p, row, column + g * kColumns, y0[g], y1[g]);
  }
}

/// Unpacks the codes of a chunk to bytes: of every step columns 0..3, then 4..7.
RQ_INLINE void Unpack(const uint8_t* codes, int32_t steps, v128_t mask, uint8_t* out) {
  for (int32_t u = 0; u < steps; ++u, codes += kStepBytes, out += 2 * kStepBytes) {
    const v128_t both = wasm_v128_load(codes);
    wasm_v128_store(out, wasm_v128_and(both, mask));
    wasm_v128_store(out + kStepBytes, wasm_v128_and(wasm_u16x8_shr(both, 4), mask));
  }
}

/// Adds the products of one chunk to the sums y[4 * tiles][8]. `w` is what Unpack wrote.
template <typename Op, bool kZeros>
static __attribute__((noinline)) void ChunkOfTiles(int32_t steps, int32_t tiles, const int8_t* a,
                                                   const float* a_scales, const int32_t* a_sums,
                                                   const uint8_t* block, const uint8_t* w,
                                                   float* y) {
  const BlockHeader<kZeros> header(block);
  for (; tiles > 0; --tiles) {
    v128_t acc0[kTileRows], acc1[kTileRows];
    RQ_UNROLL for (int i = 0; i < kTileRows; ++i) {
      acc0[i] = Begin<Op, kZeros>(header.zero0, a_sums + i);
      acc1[i] = Begin<Op, kZeros>(header.zero1, a_sums + i);
    }
    // The break after each step also keeps the compiler from moving the products of many steps to
    // where their sums are used, which would take more registers than there are.
    RQ_UNROLL for (int u = 0; u < kChunk / kStep; ++u) {
      const v128_t w0 = wasm_v128_load(w + u * 2 * kStepBytes);
      const v128_t w1 = wasm_v128_load(w + u * 2 * kStepBytes + kStepBytes);
      RQ_UNROLL for (int i = 0; i < kTileRows; ++i) {
        const v128_t x = wasm_v128_load32_splat(a + (u * kTileRows + i) * kStep);
        acc0[i] = Op::Add(acc0[i], x, w0);
        acc1[i] = Op::Add(acc1[i], x, w1);
      }
      if (u + 1 == steps) break;
    }
    RQ_UNROLL for (int i = 0; i < kTileRows; ++i) {
      const v128_t sum0 = End<Op, kZeros>(acc0[i], header.zero0, a_sums + i);
      const v128_t sum1 = End<Op, kZeros>(acc1[i], header.zero1, a_sums + i);
      wasm_v128_store(y, AddChunk(wasm_v128_load(y), sum0, header.scale0, a_scales + i));
      wasm_v128_store(y + 4, AddChunk(wasm_v128_load(y + 4), sum1, header.scale1, a_scales + i));
      y += kColumns;
    }
    a += steps * kTileRows * kStep;
    a_scales += kTileRows;
    a_sums += kTileRows;
  }
}

/// Multiplies tiles of rows by one group of columns.
template <typename Op, bool kZeros>
static __attribute__((noinline)) void Tiles(const MatMulNBitsParams* p, int32_t tiles,
                                            const int8_t* a, const float* a_scales,
                                            const int32_t* a_sums, const uint8_t* block, uint8_t* w,
                                            float* y) {
  const int32_t blocks = Blocks(p->k, p->block), chunk = Chunk(p->block), rows = tiles * kTileRows;
  const v128_t mask = simd::LoopConstant(int8_t{15}, static_cast<size_t>(p->block));
  for (int32_t i = 0; i < rows * kColumns; i += 4) wasm_v128_store(y + i, wasm_f32x4_splat(0));
  for (int32_t b = 0; b < blocks; ++b) {
    const uint8_t* codes = block + HeaderBytes(p->has_zero_points);
    for (int32_t done = 0; done < p->block; done += chunk) {
      Unpack(codes, chunk / kStep, mask, w);
      ChunkOfTiles<Op, kZeros>(chunk / kStep, tiles, a, a_scales, a_sums, block, w, y);
      codes += chunk * kColumns / 2;
      a += rows * chunk;
      a_scales += rows;
      a_sums += rows;
    }
    block += BlockBytes(p->block, p->has_zero_points);
  }
}

template <typename Op, bool kZeros>
RQ_INLINE void MultiplyBy(const MatMulNBitsParams* p) {
  const int32_t blocks = Blocks(p->k, p->block), chunk = Chunk(p->block);
  const int32_t chunks = blocks * (p->block / chunk), most = RowsInPanel(p->rows, kQ8PanelRows);
  const ptrdiff_t lda = static_cast<ptrdiff_t>(blocks) * p->block;
  const ptrdiff_t group_bytes = blocks * BlockBytes(p->block, p->has_zero_points);
  constexpr int32_t kFactor = kZeros ? -1 : -8;
  constexpr bool kHalves = !Op::kWide && !kZeros;
  float* y = static_cast<float*>(p->workspace);
  uint8_t* unpacked = reinterpret_cast<uint8_t*>(y + most * kColumns);
  float* scales = reinterpret_cast<float*>(unpacked + kUnpackedBytes);
  int32_t* sums = reinterpret_cast<int32_t*>(scales + static_cast<ptrdiff_t>(most) * chunks);
  int8_t* bytes = reinterpret_cast<int8_t*>(sums + static_cast<ptrdiff_t>(most) * chunks);
  for (int32_t row = 0; row < p->rows; row += most) {
    const int32_t count = p->rows - row < most ? p->rows - row : most;
    // The panel's bytes are tiles of four rows, chunk by chunk, followed by single rows.
    const int32_t tiles = count / kTileRows, tiled = tiles * kTileRows;
    for (ptrdiff_t r = 0; r < count; ++r) {
      const float* x = p->a + (row + r) * p->k;
      if (r < tiled) {
        QuantizeRow(x, p->k, chunk, chunks, kFactor, kHalves, kTileRows * kStep, tiled * chunk,
                    bytes + r / kTileRows * kTileRows * chunk + r % kTileRows * kStep, scales + r,
                    sums + r, tiled);
      } else {
        QuantizeRow(x, p->k, chunk, chunks, kFactor, kHalves, kStep, chunk, bytes + r * lda,
                    scales + r * chunks, sums + r * chunks, 1);
      }
    }
    for (int32_t group = p->begin, some = 0; group < p->end; group += some) {
      some = p->end - group < Op::kRowGroups ? 1 : Op::kRowGroups;
      const uint8_t* block = static_cast<const uint8_t*>(p->weights) + group * group_bytes;
      const int32_t column = group * kColumns;
      for (int32_t g = 0; tiles > 0 && g < some; ++g) {
        Tiles<Op, kZeros>(p, tiles, bytes, scales, sums, block + g * group_bytes, unpacked, y);
        for (int32_t r = 0; r < tiled; ++r) {
          const float* from = y + r * kColumns;
          StoreColumns(p, row + r, column + g * kColumns, wasm_v128_load(from),
                       wasm_v128_load(from + 4));
        }
      }
      for (ptrdiff_t r = tiled; r < count; ++r) {
        const int8_t* x = bytes + r * lda;
        const float* x_scales = scales + r * chunks;
        const int32_t* x_sums = sums + r * chunks;
        const int32_t to = static_cast<int32_t>(row + r);
        if (some > 1) {
          SingleRow<Op, kZeros, Op::kRowGroups>(p, x, x_scales, x_sums, block, to, column);
        } else {
          SingleRow<Op, kZeros, 1>(p, x, x_scales, x_sums, block, to, column);
        }
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
