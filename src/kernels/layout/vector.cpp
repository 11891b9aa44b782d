// Transposes in register blocks (8x8 bytes, 4x4 words) and copies rows. Both the loads and the
// stores of a block run along rows, which a transposition element by element cannot do.
#include "base/simd.h"
#include "kernels/layout/kernel.h"

namespace requant {
namespace {

#define RQ_INTERLEAVE_LOW16(a, b) wasm_i16x8_shuffle(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define RQ_INTERLEAVE_HIGH16(a, b) wasm_i16x8_shuffle(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define RQ_INTERLEAVE_LOW32(a, b) wasm_i32x4_shuffle(a, b, 0, 4, 1, 5)
#define RQ_INTERLEAVE_HIGH32(a, b) wasm_i32x4_shuffle(a, b, 2, 6, 3, 7)

/// out[c][r] = in[r][c] for 8 x 8 bytes.
RQ_INLINE void Block8x8(const uint8_t* in, size_t in_stride, uint8_t* out, size_t out_stride) {
  const v128_t r0 = wasm_v128_load64_zero(in);
  const v128_t r1 = wasm_v128_load64_zero(in + in_stride);
  const v128_t r2 = wasm_v128_load64_zero(in + 2 * in_stride);
  const v128_t r3 = wasm_v128_load64_zero(in + 3 * in_stride);
  const v128_t r4 = wasm_v128_load64_zero(in + 4 * in_stride);
  const v128_t r5 = wasm_v128_load64_zero(in + 5 * in_stride);
  const v128_t r6 = wasm_v128_load64_zero(in + 6 * in_stride);
  const v128_t r7 = wasm_v128_load64_zero(in + 7 * in_stride);
  // Pairs of rows: p01 has the bytes (c, 0), (c, 1) of the eight columns c.
  const v128_t p01 = simd::InterleaveLowI8(r0, r1);
  const v128_t p23 = simd::InterleaveLowI8(r2, r3);
  const v128_t p45 = simd::InterleaveLowI8(r4, r5);
  const v128_t p67 = simd::InterleaveLowI8(r6, r7);
  // Groups of four rows, of columns 0..3 and 4..7.
  const v128_t low03 = RQ_INTERLEAVE_LOW16(p01, p23);
  const v128_t high03 = RQ_INTERLEAVE_HIGH16(p01, p23);
  const v128_t low47 = RQ_INTERLEAVE_LOW16(p45, p67);
  const v128_t high47 = RQ_INTERLEAVE_HIGH16(p45, p67);
  // All eight rows: two output rows in each vector.
  const v128_t c01 = RQ_INTERLEAVE_LOW32(low03, low47);
  const v128_t c23 = RQ_INTERLEAVE_HIGH32(low03, low47);
  const v128_t c45 = RQ_INTERLEAVE_LOW32(high03, high47);
  const v128_t c67 = RQ_INTERLEAVE_HIGH32(high03, high47);
  wasm_v128_store64_lane(out, c01, 0);
  wasm_v128_store64_lane(out + out_stride, c01, 1);
  wasm_v128_store64_lane(out + 2 * out_stride, c23, 0);
  wasm_v128_store64_lane(out + 3 * out_stride, c23, 1);
  wasm_v128_store64_lane(out + 4 * out_stride, c45, 0);
  wasm_v128_store64_lane(out + 5 * out_stride, c45, 1);
  wasm_v128_store64_lane(out + 6 * out_stride, c67, 0);
  wasm_v128_store64_lane(out + 7 * out_stride, c67, 1);
}

/// out[c][r] = in[r][c] for 4 x 4 words.
RQ_INLINE void Block4x4(const uint32_t* in, size_t in_stride, uint32_t* out, size_t out_stride) {
  const v128_t r0 = wasm_v128_load(in);
  const v128_t r1 = wasm_v128_load(in + in_stride);
  const v128_t r2 = wasm_v128_load(in + 2 * in_stride);
  const v128_t r3 = wasm_v128_load(in + 3 * in_stride);
  const v128_t low01 = RQ_INTERLEAVE_LOW32(r0, r1);
  const v128_t high01 = RQ_INTERLEAVE_HIGH32(r0, r1);
  const v128_t low23 = RQ_INTERLEAVE_LOW32(r2, r3);
  const v128_t high23 = RQ_INTERLEAVE_HIGH32(r2, r3);
  wasm_v128_store(out, wasm_i64x2_shuffle(low01, low23, 0, 2));
  wasm_v128_store(out + out_stride, wasm_i64x2_shuffle(low01, low23, 1, 3));
  wasm_v128_store(out + 2 * out_stride, wasm_i64x2_shuffle(high01, high23, 0, 2));
  wasm_v128_store(out + 3 * out_stride, wasm_i64x2_shuffle(high01, high23, 1, 3));
}

template <typename T>
RQ_INLINE void Edge(const T* in, size_t in_stride, T* out, size_t out_stride, size_t rows,
                    size_t cols) {
  for (size_t c = 0; c < cols; ++c) {
    for (size_t r = 0; r < rows; ++r) out[c * out_stride + r] = in[r * in_stride + c];
  }
}

template <typename T, size_t kBlock, typename Block>
RQ_INLINE void Transpose(const TransposeParams* p, Block block) {
  const size_t is = p->in_row_stride;
  const size_t os = p->out_row_stride;
  const size_t block_rows = p->rows - p->rows % kBlock;
  const size_t block_cols = p->cols - p->cols % kBlock;
  for (size_t b = 0; b < p->batch; ++b) {
    const T* in = static_cast<const T*>(p->in) + b * p->in_batch_stride;
    T* out = static_cast<T*>(p->out) + b * p->out_batch_stride;
    for (size_t c = 0; c < block_cols; c += kBlock) {
      for (size_t r = 0; r < block_rows; r += kBlock) {
        block(in + r * is + c, is, out + c * os + r, os);
      }
    }
    // The right edge, then the bottom edge, which includes the corner.
    Edge(in + block_cols, is, out + block_cols * os, os, block_rows, p->cols - block_cols);
    Edge(in + block_rows * is, is, out + block_rows, os, p->rows - block_rows, p->cols);
  }
}

}  // namespace
}  // namespace requant

using namespace requant;

void rq_transpose_x8(const TransposeParams* p) {
  Transpose<uint8_t, 8>(p, [](const uint8_t* in, size_t in_stride, uint8_t* out,
                              size_t out_stride) { Block8x8(in, in_stride, out, out_stride); });
}

void rq_transpose_x32(const TransposeParams* p) {
  Transpose<uint32_t, 4>(p, [](const uint32_t* in, size_t in_stride, uint32_t* out,
                               size_t out_stride) { Block4x4(in, in_stride, out, out_stride); });
}

void rq_copy_rows(const CopyRowsParams* p) {
  const size_t n = p->bytes;
  for (size_t r = 0; r < p->rows; ++r) {
    const uint8_t* in = static_cast<const uint8_t*>(p->in) + r * p->in_row_stride;
    uint8_t* out = static_cast<uint8_t*>(p->out) + r * p->out_row_stride;
    size_t i = 0;
    for (; i + 16 <= n; i += 16) wasm_v128_store(out + i, wasm_v128_load(in + i));
    if (i + 8 <= n) {
      wasm_v128_store64_lane(out + i, wasm_v128_load64_zero(in + i), 0);
      i += 8;
    }
    if (i + 4 <= n) {
      wasm_v128_store32_lane(out + i, wasm_v128_load32_zero(in + i), 0);
      i += 4;
    }
    for (; i < n; ++i) out[i] = in[i];
  }
}
