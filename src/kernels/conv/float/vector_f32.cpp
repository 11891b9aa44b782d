// float32 convolution, vector form.
//
// Output is [rows, channels] = inputs [rows, K] x weights [K, channels] with K = kernel_h *
// kernel_w * input channels of the group. A 1x1 convolution reads its input in place; any other one
// first gathers a panel of rows into the workspace.
#include "kernels/conv/float/halves.h"
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

/// FourBlocks with weights of 16 bits, which each are read once.
__attribute__((noinline)) void FourHalfBlocks(const HalvesHeader& header, const float* a,
                                              int32_t length, const uint8_t* w,
                                              ptrdiff_t block_bytes, const ConvF32Params* p,
                                              ptrdiff_t row, int32_t channel, int32_t n) {
  constexpr int kBlocks = 4;
  v128_t acc0[kBlocks], acc1[kBlocks];
  const uint16_t* blocks[kBlocks];
  RQ_UNROLL for (int j = 0; j < kBlocks; ++j) {
    const float* biases = reinterpret_cast<const float*>(w + j * block_bytes);
    acc0[j] = wasm_v128_load(biases);
    acc1[j] = wasm_v128_load(biases + 4);
    blocks[j] = reinterpret_cast<const uint16_t*>(biases + kChannelBlock);
  }
  for (int32_t k = 0; k < length; ++k) {
    const v128_t x = wasm_v128_load32_splat(a + k);
    RQ_UNROLL for (int j = 0; j < kBlocks; ++j) {
      acc0[j] = simd::MulAddF32<true>(x, LoadHalves(blocks[j], header), acc0[j]);
      acc1[j] = simd::MulAddF32<true>(x, LoadHalves(blocks[j] + 4, header), acc1[j]);
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
  const bool halves = p->halves != 0;
  const int32_t panel_rows = halves ? conv::HalvesPanelRows(g) : conv::PanelRows(g, depth * 4);
  const ptrdiff_t block_bytes = halves ? conv::HalvesBlockBytes(depth) : block_floats * 4;
  const conv::HalvesHeader* header = static_cast<const conv::HalvesHeader*>(p->weights);
  float* widened = static_cast<float*>(p->workspace);
  float* panel = halves ? widened + block_floats : widened;

  for (int32_t row = p->row_begin; row < p->row_end; row += panel_rows) {
    const int32_t count = p->row_end - row < panel_rows ? p->row_end - row : panel_rows;
    const uint8_t* w =
        static_cast<const uint8_t*>(p->weights) + (halves ? sizeof(conv::HalvesHeader) : 0);
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
      for (; four && b + 4 <= blocks; b += 4, w += 4 * block_bytes) {
        const int32_t left = group_out - (b + 3) * conv::kChannelBlock;
        const int32_t n = left < conv::kChannelBlock ? left : conv::kChannelBlock;
        const int32_t channel = group * group_out + b * conv::kChannelBlock;
        if (halves) {
          conv::FourHalfBlocks(*header, a, depth, w, block_bytes, p, row, channel, n);
        } else {
          conv::FourBlocks(a, depth, reinterpret_cast<const float*>(w), block_floats, p, row,
                           channel, n);
        }
      }
      for (; b < blocks; ++b, w += block_bytes) {
        const int32_t n = group_out - b * conv::kChannelBlock;
        const float* block = reinterpret_cast<const float*>(w);
        if (halves) {
          conv::WidenBlock(*header, w, depth, widened);
          block = widened;
        }
        conv::Rows(a, 0, lda, 0, 1, depth, block, p, row, count,
                   group * group_out + b * conv::kChannelBlock,
                   n < conv::kChannelBlock ? n : conv::kChannelBlock);
      }
    }
  }
}
