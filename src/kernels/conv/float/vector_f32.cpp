// float32 convolution, vector form.
//
// Output is [rows, channels] = inputs [rows, K] x weights [K, channels] with K = kernel_h *
// kernel_w * input channels of the group. A 1x1 convolution reads its input in place; any other one
// first gathers a panel of rows into the workspace.
#include "kernels/conv/float/tile_f32.h"
#include "kernels/conv/gather/gather.h"

namespace requant::conv {
namespace {

/// Multiplies one row by four blocks of weights at a time: with eight sums in flight none waits for
/// the one before. Each sum has the order of Tile. `w` and `channel` belong to the first block, n
/// to the last.
__attribute__((noinline)) void FourBlocks(const float* a, int32_t length, const float* w,
                                          ptrdiff_t block_floats, const ConvF32Params* p,
                                          ptrdiff_t row, int32_t channel, int32_t n) {
  constexpr int kBlocks = 4;
  v128_t acc0[kBlocks], acc1[kBlocks];
  const float* blocks[kBlocks];
  RQ_UNROLL for (int j = 0; j < kBlocks; ++j) {
    blocks[j] = w + j * block_floats;
    acc0[j] = wasm_v128_load(blocks[j]);
    acc1[j] = wasm_v128_load(blocks[j] + 4);
    blocks[j] += kChannelBlock;
  }
  for (int32_t k = 0; k < length; ++k) {
    const v128_t x = wasm_v128_load32_splat(a + k);
    RQ_UNROLL for (int j = 0; j < kBlocks; ++j) {
      acc0[j] = simd::MulAddF32<true>(x, wasm_v128_load(blocks[j]), acc0[j]);
      acc1[j] = simd::MulAddF32<true>(x, wasm_v128_load(blocks[j] + 4), acc1[j]);
      blocks[j] += kChannelBlock;
    }
  }
  RQ_UNROLL for (int j = 0; j < kBlocks; ++j) {
    Store(p, row, channel + j * kChannelBlock, j == kBlocks - 1 ? n : kChannelBlock, acc0[j],
          acc1[j]);
  }
}

}  // namespace
}  // namespace requant::conv

void rq_conv_f32(const requant::ConvF32Params* p) {
  using namespace requant;
  const ConvGeometry& g = p->geometry;
  const int32_t depth = conv::Depth(g);
  const int32_t group_in = g.in_c / g.groups, group_out = g.out_c / g.groups;
  const int32_t blocks = (group_out + conv::kChannelBlock - 1) / conv::kChannelBlock;
  const ptrdiff_t block_floats = static_cast<ptrdiff_t>(conv::kChannelBlock) * (depth + 1);
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
      int32_t b = 0;
      const bool four = count == 1 && !(simd::kMayFuse && p->portable != 0);
      for (; four && b + 4 <= blocks; b += 4, w += 4 * block_floats) {
        const int32_t n = group_out - (b + 3) * conv::kChannelBlock;
        conv::FourBlocks(a, depth, w, block_floats, p, row,
                         group * group_out + b * conv::kChannelBlock,
                         n < conv::kChannelBlock ? n : conv::kChannelBlock);
      }
      for (; b < blocks; ++b, w += block_floats) {
        const int32_t n = group_out - b * conv::kChannelBlock;
        conv::Rows(a, 0, lda, 0, 1, depth, w, p, row, count,
                   group * group_out + b * conv::kChannelBlock,
                   n < conv::kChannelBlock ? n : conv::kChannelBlock);
      }
    }
  }
}
