// 8-bit convolution, vector form.
//
// Pairs of k: the panel holds (input - zero point) as int16, the packed weights (weight - zero
// point) as int8 when all of them fit and as int16 otherwise, laid out [K / 2][8 channels][2]
// behind 8 biases. i32x4.dot_i16x8 multiplies a pair of inputs, splatted, by the pairs of four
// channels and adds neighbours, so one instruction does eight exact products, and subtracting the
// zero points first (decomposition b of the integer convolution) leaves no correction terms.
#include "kernels/conv/finish.h"
#include "kernels/conv/gather.h"
#include "kernels/conv/product.h"

namespace requant {
namespace {

using conv::kChannelBlock;
using conv::kEpilogueRows;

template <typename Int>
RQ_INLINE void Rows(const int16_t* a, ptrdiff_t lda, const uint8_t* block, int32_t pairs,
                    int32_t count, int32_t* out) {
  conv::Product<conv::PairsOp<Int>>(a, lda, reinterpret_cast<const Int*>(block + kChannelBlock * 4),
                                    pairs, reinterpret_cast<const int32_t*>(block), 0, count, out);
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
    conv::AddResidual(p, row, count);
  }
}
