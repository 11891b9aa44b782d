// 8-bit convolution, vector form.
//
// The kernel multiplies pairs of k. The panel holds (input - zero point) as int16, the packed
// weights (weight - zero point) as int8 when all of them fit and as int16 otherwise, laid out [K /
// 2][8 channels][2] behind 8 biases. i32x4.dot_i16x8 multiplies a pair of inputs, splatted, by the
// pairs of four channels and adds neighbors, so one instruction computes eight exact products.
// Since the zero points are subtracted first, there are no correction terms.
#include "kernels/conv/finish.h"
#include "kernels/conv/gather/gather.h"
#include "kernels/conv/product.h"

namespace requant {
namespace {

using conv::kChannelBlock;
using conv::kEpilogueRows;

__attribute__((noinline)) void Widen(const int8_t* weights, int32_t pairs, int16_t* out) {
  for (; pairs > 0; --pairs, weights += kChannelBlock * 2, out += kChannelBlock * 2) {
    const v128_t both = wasm_v128_load(weights);
    wasm_v128_store(out, wasm_i16x8_extend_low_i8x16(both));
    wasm_v128_store(out + kChannelBlock, wasm_i16x8_extend_high_i8x16(both));
  }
}

/// out[count][8] = from + the products with `pairs` pairs of int16 weights.
RQ_INLINE void Rows(const int16_t* a, ptrdiff_t lda, const int16_t* w, int32_t pairs,
                    const int32_t* from, ptrdiff_t from_step, int32_t count, int32_t* out) {
  conv::Product<conv::PairsOp<int16_t>>(a, lda, w, pairs, from, from_step, count, out);
}

/// out[count][8] = from + the products with `pairs` pairs of int8 weights. For many rows the
/// weights are widened once, into `widened`: 117 instead of 105 GOPS on Zen 5, where every step of
/// a tile would widen two vectors for its eight products.
RQ_INLINE void Rows(const int16_t* a, ptrdiff_t lda, const int8_t* w, int32_t pairs,
                    const int32_t* from, int32_t count, int16_t* widened, int32_t* out) {
  if (count < conv::kFewRows) {
    conv::Product<conv::PairsOp<int8_t>>(a, lda, w, pairs, from, 0, count, out);
    return;
  }
  ptrdiff_t from_step = 0;
  for (int32_t pair = 0; pair < pairs; pair += conv::kWidenedPairs) {
    const int32_t some = pairs - pair < conv::kWidenedPairs ? pairs - pair : conv::kWidenedPairs;
    Widen(w + pair * kChannelBlock * 2, some, widened);
    Rows(a + pair * 2, lda, widened, some, from, from_step, count, out);
    from = out;
    from_step = kChannelBlock;
  }
}

__attribute__((noinline)) void GatherPanel(const ConvQ8Params* p, int32_t first_channel,
                                           int32_t row, int32_t count, int16_t* panel,
                                           ptrdiff_t stride) {
  conv::GatherRows(p->geometry, static_cast<const uint8_t*>(p->input), first_channel, row, count,
                   conv::WidenOf(p), panel, stride);
}

}  // namespace
}  // namespace requant

void rq_conv_q8(const requant::ConvQ8Params* p) {
  using namespace requant;
  const ConvGeometry& g = p->geometry;
  const int32_t pairs = (conv::Depth(g) + 1) / 2;
  const ptrdiff_t lda = conv::PairsPitch(g);
  const int32_t group_in = g.in_c / g.groups, group_out = g.out_c / g.groups;
  const int32_t blocks = (group_out + kChannelBlock - 1) / kChannelBlock;
  const bool wide = static_cast<const conv::PackedQ8Header*>(p->weights)->wide != 0;
  const ptrdiff_t block_bytes = kChannelBlock * 4 + kChannelBlock * 2 * pairs * (wide ? 2 : 1);
  const int32_t panel_rows = conv::PanelRows(g, static_cast<int32_t>(lda) * 2);
  int32_t* acc = static_cast<int32_t*>(p->workspace);
  int16_t* widened =
      reinterpret_cast<int16_t*>(static_cast<uint8_t*>(p->workspace) + conv::kEpilogueBytes);
  int16_t* panel = widened + conv::WidenedBytes(g) / 2;

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
          const int16_t* a = panel + r * lda;
          const int32_t* bias = reinterpret_cast<const int32_t*>(w);
          const uint8_t* weights = w + kChannelBlock * 4;
          if (wide) {
            Rows(a, lda, reinterpret_cast<const int16_t*>(weights), pairs, bias, 0, strip, acc);
          } else {
            Rows(a, lda, reinterpret_cast<const int8_t*>(weights), pairs, bias, strip, widened,
                 acc);
          }
          conv::Finish(p, acc, row + r, strip, group * group_out + channel, n);
        }
      }
    }
    conv::AddResidual(p, row, count);
  }
}
