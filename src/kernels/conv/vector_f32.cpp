// float32 convolution, vector form.
//
// Output is [rows, channels] = inputs [rows, K] x weights [K, channels] with K = kernel_h *
// kernel_w
// * input channels of the group. Register tile: kTile rows by 8 channels. Weights are packed in
// blocks of 8 channels: 8 biases, then K rows of 8. A 1x1 convolution reads its input in place; any
// other one first gathers a panel of rows into the workspace. Each output is one running sum over
// k = 0..K-1 starting at the bias, so it does not depend on how rows are split.
#include "kernels/conv/blocking.h"
#include "kernels/conv/gather.h"
#include "kernels/conv/kernel.h"
#include "kernels/simd.h"

namespace requant {
namespace {

using conv::kChannelBlock;

/// Twelve accumulators, two weight vectors and one input: 15 of x86-64's 16 registers.
constexpr int32_t kTile = 6;

/// Rows [row, row + kRows) x channels [channel, channel + n), n <= 8. `a` is the first row's input,
/// lda its distance to the next, `w` the packed block.
template <int kRows>
__attribute__((noinline)) void Tile(const float* a, ptrdiff_t lda, const float* w, int32_t depth,
                                    const ConvF32Params* p, ptrdiff_t row, int32_t channel,
                                    int32_t n) {
  v128_t acc0[kRows], acc1[kRows];
  const float* rows[kRows];
  const v128_t bias0 = wasm_v128_load(w), bias1 = wasm_v128_load(w + 4);
  w += kChannelBlock;
  RQ_UNROLL for (int i = 0; i < kRows; ++i) {
    acc0[i] = bias0;
    acc1[i] = bias1;
    rows[i] = a + i * lda;
  }
  int32_t k = 0;
  for (; k + 4 <= depth; k += 4) {
    RQ_UNROLL for (int u = 0; u < 4; ++u) {
      const v128_t b0 = wasm_v128_load(w + u * kChannelBlock);
      const v128_t b1 = wasm_v128_load(w + u * kChannelBlock + 4);
      RQ_UNROLL for (int i = 0; i < kRows; ++i) {
        const v128_t x = wasm_v128_load32_splat(rows[i] + u);
        acc0[i] = simd::MulAddF32(x, b0, acc0[i]);
        acc1[i] = simd::MulAddF32(x, b1, acc1[i]);
      }
    }
    RQ_UNROLL for (int i = 0; i < kRows; ++i) rows[i] += 4;
    w += 4 * kChannelBlock;
  }
  for (; k < depth; ++k) {
    const v128_t b0 = wasm_v128_load(w), b1 = wasm_v128_load(w + 4);
    RQ_UNROLL for (int i = 0; i < kRows; ++i) {
      const v128_t x = wasm_v128_load32_splat(rows[i]++);
      acc0[i] = simd::MulAddF32(x, b0, acc0[i]);
      acc1[i] = simd::MulAddF32(x, b1, acc1[i]);
    }
    w += kChannelBlock;
  }
  const v128_t lo = wasm_f32x4_splat(p->lo), hi = wasm_f32x4_splat(p->hi);
  float* out = p->output + row * p->geometry.output_stride + channel;
  const float* residual =
      p->residual == nullptr ? nullptr : p->residual + row * p->residual_stride + channel;
  RQ_UNROLL for (int i = 0; i < kRows; ++i) {
    v128_t y0 = acc0[i], y1 = acc1[i];
    if (residual != nullptr) {
      y0 = wasm_f32x4_add(y0, simd::LoadPartialF32(residual, n));
      if (n > 4) y1 = wasm_f32x4_add(y1, simd::LoadPartialF32(residual + 4, n - 4));
      residual += p->residual_stride;
    }
    y0 = simd::ClampF32(y0, lo, hi);
    y1 = simd::ClampF32(y1, lo, hi);
    if (n >= kChannelBlock) {
      wasm_v128_store(out, y0);
      wasm_v128_store(out + 4, y1);
    } else {
      simd::StorePartialF32(out, y0, n);
      if (n > 4) simd::StorePartialF32(out + 4, y1, n - 4);
    }
    out += p->geometry.output_stride;
  }
}

/// All rows of a block against one block of weights.
RQ_INLINE void Rows(const float* a, ptrdiff_t lda, const float* w, int32_t depth,
                    const ConvF32Params* p, ptrdiff_t row, int32_t count, int32_t channel,
                    int32_t n) {
  for (; count >= kTile; count -= kTile, row += kTile, a += kTile * lda) {
    Tile<kTile>(a, lda, w, depth, p, row, channel, n);
  }
  if (count >= 4) {
    Tile<4>(a, lda, w, depth, p, row, channel, n);
    count -= 4, row += 4, a += 4 * lda;
  }
  if (count >= 2) {
    Tile<2>(a, lda, w, depth, p, row, channel, n);
    count -= 2, row += 2, a += 2 * lda;
  }
  if (count >= 1) Tile<1>(a, lda, w, depth, p, row, channel, n);
}

}  // namespace
}  // namespace requant

void rq_conv_f32(const requant::ConvF32Params* p) {
  using namespace requant;
  const ConvGeometry& g = p->geometry;
  const int32_t depth = conv::Depth(g);
  const int32_t group_in = g.in_c / g.groups, group_out = g.out_c / g.groups;
  const int32_t blocks = (group_out + kChannelBlock - 1) / kChannelBlock;
  const ptrdiff_t block_floats = static_cast<ptrdiff_t>(kChannelBlock) * (depth + 1);
  const bool in_place = conv::IsPointwise(g);
  const int32_t panel_rows = conv::PanelRows(g, depth * 4);
  float* panel = static_cast<float*>(p->workspace);

  for (int32_t row = p->row_begin; row < p->row_end; row += panel_rows) {
    const int32_t count = p->row_end - row < panel_rows ? p->row_end - row : panel_rows;
    const float* w = static_cast<const float*>(p->weights);
    for (int32_t group = 0; group < g.groups; ++group) {
      const float* a = panel;
      ptrdiff_t lda = depth;
      if (in_place) {
        a = p->input + static_cast<ptrdiff_t>(row) * g.input_stride + group * group_in;
        lda = g.input_stride;
      } else {
        conv::GatherRows(g, p->input, group * group_in, row, count, conv::CopyF32(), panel, lda);
      }
      for (int32_t b = 0; b < blocks; ++b, w += block_floats) {
        const int32_t n = group_out - b * kChannelBlock;
        Rows(a, lda, w, depth, p, row, count, group * group_out + b * kChannelBlock,
             n < kChannelBlock ? n : kChannelBlock);
      }
    }
  }
}
