// 8-bit convolution, vector form.
//
// The blocking of vector_f32.cpp with pairs of k: the panel holds (input - zero point) as int16,
// the packed weights (weight - zero point) as int8 when all of them fit and as int16 otherwise,
// laid out [K / 2][8 channels][2]. i32x4.dot_i16x8 multiplies a pair of inputs, splatted, by the
// pairs of four channels and adds neighbours, so one instruction does eight exact products, and
// subtracting the zero points first (decomposition b of the integer convolution) leaves no
// correction terms. Accumulators of up to 64 rows go to a strip in the workspace and are
// requantized from there.
#include "kernels/conv/blocking.h"
#include "kernels/conv/finish.h"
#include "kernels/conv/gather.h"
#include "kernels/conv/kernel.h"
#include "kernels/simd.h"

namespace requant {
namespace {

using conv::kChannelBlock;
using conv::kEpilogueRows;

/// Twelve accumulators, two weight vectors and one input: 15 of x86-64's 16 registers.
constexpr int32_t kTile = 6;

/// Eight weights: the pairs of four channels.
RQ_INLINE v128_t LoadPairs(const int8_t* w) { return wasm_i16x8_load8x8(w); }
RQ_INLINE v128_t LoadPairs(const int16_t* w) { return wasm_v128_load(w); }

/// acc[kRows][8] = bias + sum over k.
template <int kRows, typename Weight>
__attribute__((noinline)) void Tile(const int16_t* a, ptrdiff_t lda, const int32_t* bias,
                                    const Weight* w, int32_t pairs, int32_t* out) {
  v128_t acc0[kRows], acc1[kRows];
  const int16_t* rows[kRows];
  const v128_t bias0 = wasm_v128_load(bias), bias1 = wasm_v128_load(bias + 4);
  RQ_UNROLL for (int i = 0; i < kRows; ++i) {
    acc0[i] = bias0;
    acc1[i] = bias1;
    rows[i] = a + i * lda;
  }
  int32_t k = 0;
  for (; k + 4 <= pairs; k += 4) {
    RQ_UNROLL for (int u = 0; u < 4; ++u) {
      const v128_t b0 = LoadPairs(w + u * 16), b1 = LoadPairs(w + u * 16 + 8);
      RQ_UNROLL for (int i = 0; i < kRows; ++i) {
        const v128_t x = wasm_v128_load32_splat(rows[i] + 2 * u);
        acc0[i] = wasm_i32x4_add(acc0[i], wasm_i32x4_dot_i16x8(x, b0));
        acc1[i] = wasm_i32x4_add(acc1[i], wasm_i32x4_dot_i16x8(x, b1));
      }
    }
    RQ_UNROLL for (int i = 0; i < kRows; ++i) rows[i] += 8;
    w += 64;
  }
  for (; k < pairs; ++k, w += 16) {
    const v128_t b0 = LoadPairs(w), b1 = LoadPairs(w + 8);
    RQ_UNROLL for (int i = 0; i < kRows; ++i) {
      const v128_t x = wasm_v128_load32_splat(rows[i]);
      acc0[i] = wasm_i32x4_add(acc0[i], wasm_i32x4_dot_i16x8(x, b0));
      acc1[i] = wasm_i32x4_add(acc1[i], wasm_i32x4_dot_i16x8(x, b1));
      rows[i] += 2;
    }
  }
  RQ_UNROLL for (int i = 0; i < kRows; ++i) {
    wasm_v128_store(out + i * kChannelBlock, acc0[i]);
    wasm_v128_store(out + i * kChannelBlock + 4, acc1[i]);
  }
}

/// The accumulators of `count` <= 64 rows against one block of weights.
template <typename Weight>
RQ_INLINE void Rows(const int16_t* a, ptrdiff_t lda, const uint8_t* block, int32_t pairs,
                    int32_t count, int32_t* out) {
  const int32_t* bias = reinterpret_cast<const int32_t*>(block);
  const Weight* w = reinterpret_cast<const Weight*>(block + kChannelBlock * 4);
  for (; count >= kTile; count -= kTile, a += kTile * lda, out += kTile * kChannelBlock) {
    Tile<kTile>(a, lda, bias, w, pairs, out);
  }
  if (count >= 4) {
    Tile<4>(a, lda, bias, w, pairs, out);
    count -= 4, a += 4 * lda, out += 4 * kChannelBlock;
  }
  if (count >= 2) {
    Tile<2>(a, lda, bias, w, pairs, out);
    count -= 2, a += 2 * lda, out += 2 * kChannelBlock;
  }
  if (count >= 1) Tile<1>(a, lda, bias, w, pairs, out);
}

__attribute__((noinline)) void GatherPanel(const ConvQ8Params* p, int32_t first_channel,
                                           int32_t row, int32_t count, int16_t* panel,
                                           ptrdiff_t stride) {
  if (p->input_signed) {
    conv::GatherRows<conv::WidenQ8<int8_t>>(p->geometry, static_cast<const int8_t*>(p->input),
                                            first_channel, row, count, p->input_zero_point, panel,
                                            stride);
  } else {
    conv::GatherRows<conv::WidenQ8<uint8_t>>(p->geometry, static_cast<const uint8_t*>(p->input),
                                             first_channel, row, count, p->input_zero_point, panel,
                                             stride);
  }
}

}  // namespace
}  // namespace requant

void rq_conv_q8(const requant::ConvQ8Params* p) {
  using namespace requant;
  const ConvGeometry& g = p->geometry;
  const int32_t pairs = (conv::Depth(g) + 1) / 2;
  const ptrdiff_t lda = 2 * static_cast<ptrdiff_t>(pairs);
  const int32_t group_in = g.in_c / g.groups, group_out = g.out_c / g.groups;
  const int32_t blocks = (group_out + kChannelBlock - 1) / kChannelBlock;
  const bool wide = static_cast<const conv::PackedQ8Header*>(p->weights)->wide != 0;
  const ptrdiff_t block_bytes = kChannelBlock * 4 + kChannelBlock * lda * (wide ? 2 : 1);
  const int32_t panel_rows = conv::PanelRows(g, pairs * 4);
  int32_t* acc = static_cast<int32_t*>(p->workspace);
  int16_t* panel =
      reinterpret_cast<int16_t*>(static_cast<uint8_t*>(p->workspace) + conv::kEpilogueBytes);

  for (int32_t row = p->row_begin; row < p->row_end; row += panel_rows) {
    const int32_t count = p->row_end - row < panel_rows ? p->row_end - row : panel_rows;
    const uint8_t* w = static_cast<const uint8_t*>(p->weights) + sizeof(conv::PackedQ8Header);
    for (int32_t group = 0; group < g.groups; ++group) {
      GatherPanel(p, group * group_in, row, count, panel, lda);
      for (int32_t b = 0; b < blocks; ++b, w += block_bytes) {
        const int32_t channel = b * kChannelBlock;
        const int32_t n = group_out - channel < kChannelBlock ? group_out - channel : kChannelBlock;
        for (int32_t r = 0; r < count; r += kEpilogueRows) {
          const int32_t strip = count - r < kEpilogueRows ? count - r : kEpilogueRows;
          if (wide) {
            Rows<int16_t>(panel + r * lda, lda, w, pairs, strip, acc);
          } else {
            Rows<int8_t>(panel + r * lda, lda, w, pairs, strip, acc);
          }
          conv::Finish(p, acc, row + r, strip, group * group_out + channel, n);
        }
      }
    }
  }
}
