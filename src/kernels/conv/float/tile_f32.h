#pragma once
// The register tile of the float kernels: kTile rows by 8 channels. Weights are packed in blocks of
// 8 channels: 8 biases, then K rows of 8. Freestanding.
//
//                          w[k]:  [ b0: channels 0..3 ] [ b1: channels 4..7 ]
//   row 0   x[0][k], splat:       [      acc0[0]      ] [      acc1[0]      ]
//   ...                           [        ...        ] [        ...        ]
//   row 3   x[3][k], splat:       [      acc0[3]      ] [      acc1[3]      ]
//
// Each output is one running sum over k = 0..K-1 that starts at the bias, so it depends neither on
// how rows are split nor on where the inputs lie.
#include "base/simd.h"
#include "kernels/conv/blocking.h"
#include "kernels/conv/kernel.h"

namespace requant::conv {

/// Rows of a tile. The loop over k is not unrolled: 53 GOPS on Zen 4, 6 rows unrolled by four 47, 6
/// rows 27 (V8 runs out of registers for addresses).
constexpr int32_t kTile = 4;

/// Adds the residual, clamps, and stores the first n (at most 8) channels of a row from `channel`
/// on.
RQ_INLINE void Store(const ConvF32Params* p, ptrdiff_t row, int32_t channel, int32_t n, v128_t y0,
                     v128_t y1) {
  const v128_t lo = wasm_f32x4_splat(p->lo), hi = wasm_f32x4_splat(p->hi);
  if (p->residual != nullptr) {
    const float* residual = p->residual + row * p->residual_stride + channel;
    y0 = wasm_f32x4_add(y0, simd::LoadPartial(residual, n));
    if (n > 4) y1 = wasm_f32x4_add(y1, simd::LoadPartial(residual + 4, n - 4));
  }
  y0 = simd::ClampF32(y0, lo, hi);
  y1 = simd::ClampF32(y1, lo, hi);
  float* out = p->output + row * p->geometry.output_stride + channel;
  simd::StorePartial(out, y0, n);
  if (n > 4) simd::StorePartial(out + 4, y1, n - 4);
}

/// Computes rows [row, row + kRows) x channels [channel, channel + n), n <= 8; `w` is the packed
/// block. The inputs of a row are `count` runs of `length` values: one for each line of the window,
/// or a single gathered one. The first row's runs start at base + slot * pitch, the slots going
/// upwards from `first` and round in a ring of `count`; each further row is `lda` behind.
/// (Parameters are no struct, which would live on a stack that kernels do not have.)
template <int kRows, bool kFused>
__attribute__((noinline)) void Tile(const float* base, ptrdiff_t pitch, ptrdiff_t lda,
                                    int32_t first, int32_t count, int32_t length, const float* w,
                                    const ConvF32Params* p, ptrdiff_t row, int32_t channel,
                                    int32_t n) {
  v128_t acc0[kRows], acc1[kRows];
  const v128_t bias0 = wasm_v128_load(w), bias1 = wasm_v128_load(w + 4);
  w += kChannelBlock;
  RQ_UNROLL for (int i = 0; i < kRows; ++i) {
    acc0[i] = bias0;
    acc1[i] = bias1;
  }
  int32_t slot = first;
  for (int32_t run = 0; run < count; ++run) {
    const float* rows[kRows];
    RQ_UNROLL for (int i = 0; i < kRows; ++i) rows[i] = base + slot * pitch + i * lda;
    if (++slot == count) slot = 0;
    for (int32_t k = 0; k < length; ++k) {
      const v128_t b0 = wasm_v128_load(w), b1 = wasm_v128_load(w + 4);
      RQ_UNROLL for (int i = 0; i < kRows; ++i) {
        const v128_t x = wasm_v128_load32_splat(rows[i]++);
        acc0[i] = simd::MulAddF32<kFused>(x, b0, acc0[i]);
        acc1[i] = simd::MulAddF32<kFused>(x, b1, acc1[i]);
      }
      w += kChannelBlock;
    }
  }
  RQ_UNROLL for (int i = 0; i < kRows; ++i) Store(p, row + i, channel, n, acc0[i], acc1[i]);
}

/// Multiplies all rows of a panel by one block of weights. Only the fused form has code for two
/// rows.
template <bool kFused>
RQ_INLINE void TileRows(const float* base, ptrdiff_t pitch, ptrdiff_t lda, int32_t first,
                        int32_t count, int32_t length, const float* w, const ConvF32Params* p,
                        ptrdiff_t row, int32_t rows, int32_t channel, int32_t n) {
  for (; rows >= kTile; rows -= kTile, row += kTile, base += kTile * lda) {
    Tile<kTile, kFused>(base, pitch, lda, first, count, length, w, p, row, channel, n);
  }
  if constexpr (kFused) {
    if (rows >= 2) {
      Tile<2, kFused>(base, pitch, lda, first, count, length, w, p, row, channel, n);
      rows -= 2, row += 2, base += 2 * lda;
    }
  }
  for (; rows >= 1; --rows, ++row, base += lda) {
    Tile<1, kFused>(base, pitch, lda, first, count, length, w, p, row, channel, n);
  }
}

/// Runs the fused or the unfused form, as the parameters ask for.
RQ_INLINE void Rows(const float* base, ptrdiff_t pitch, ptrdiff_t lda, int32_t first, int32_t count,
                    int32_t length, const float* w, const ConvF32Params* p, ptrdiff_t row,
                    int32_t rows, int32_t channel, int32_t n) {
  if (simd::kMayFuse && p->portable != 0) {
    TileRows<false>(base, pitch, lda, first, count, length, w, p, row, rows, channel, n);
  } else {
    TileRows<true>(base, pitch, lda, first, count, length, w, p, row, rows, channel, n);
  }
}

}  // namespace requant::conv
