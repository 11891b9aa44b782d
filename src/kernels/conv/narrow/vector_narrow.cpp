// Products of fewer than 8 by 8 bits, for relaxed SIMD.
//
// i16x8.relaxed_dot_i8x16_i7x16 adds pairs of products of signed bytes and bytes in [0, 127]. Many
// pairs of narrow operands fit int16, so they are added as int16 and widened to int32 only after a
// segment of `segment` steps: sixteen products take two instructions, where 7 bits take three and 8
// bits four. The length of a segment follows from the weights themselves and from the codes that
// the input can hold (pack_narrow.cpp). Additions wrap, so only a segment's final sum has to fit.
#include "kernels/bitserial/nibbles_simd.h"
#include "kernels/conv/gather/gather_bytes.h"
#include "kernels/conv/narrow/narrow_codes.h"
#include "kernels/conv/narrow/narrow_rows.h"
#include "kernels/conv/narrow/narrow_tiles.h"

namespace requant {
namespace {

/// out[count][8] = biases less the zero point's share, plus the term of each row.
__attribute__((noinline)) void Bases(const uint8_t* block, int32_t zero_point, const int32_t* terms,
                                     int32_t count, int32_t* out) {
  const v128_t zero = wasm_i32x4_splat(zero_point);
  const v128_t base0 =
      wasm_i32x4_sub(wasm_v128_load(block), wasm_i32x4_mul(zero, wasm_v128_load(block + 32)));
  const v128_t base1 =
      wasm_i32x4_sub(wasm_v128_load(block + 16), wasm_i32x4_mul(zero, wasm_v128_load(block + 48)));
  for (int32_t r = 0; r < count; ++r, out += conv::kChannelBlock) {
    const v128_t term = wasm_v128_load32_splat(terms + r);
    wasm_v128_store(out, wasm_i32x4_add(base0, term));
    wasm_v128_store(out + 4, wasm_i32x4_add(base1, term));
  }
}

}  // namespace
}  // namespace requant

void rq_conv_narrow_rows(const uint8_t* a, ptrdiff_t lda, const uint8_t* weights, int32_t steps,
                         int32_t segment, const int32_t* from, ptrdiff_t from_step, int32_t count,
                         int32_t* out) {
  using namespace requant;
  conv::NarrowRows<conv::NarrowInputs>(a, lda, weights, false, 0, steps, segment, from, from_step,
                                       count, out);
}

void rq_conv_q8_narrow(const requant::ConvQ8Params* p) {
  using namespace requant;
  using namespace conv;
  const ConvGeometry& g = p->geometry;
  const conv::NarrowHeader* header = static_cast<const conv::NarrowHeader*>(p->weights);
  const int32_t steps = (conv::Depth(g) + kDot7Group - 1) / kDot7Group;
  const int32_t group_in = g.in_c / g.groups, group_out = g.out_c / g.groups;
  const int32_t blocks = (group_out + kChannelBlock - 1) / kChannelBlock;
  const bool nibbles = header->nibbles != 0, sums = header->second != 0;
  const ptrdiff_t block_bytes =
      conv::kNarrowBlockHeader + static_cast<ptrdiff_t>(steps) * (nibbles ? 16 : 32);
  const int32_t zero_point = p->input_zero_point + header->input_add;
  const int32_t weight_add = sums ? 0 : header->offset;
  const bool in_place = !sums && p->input_packed == 0 && conv::IsPointwise(g) &&
                        header->input_add == 0 && group_in % kDot7Group == 0;
  const int32_t panel_rows = conv::NarrowPanelRows(g);
  int32_t* base = static_cast<int32_t*>(p->workspace);
  auto* codes = reinterpret_cast<conv::BlockCodes*>(base + kChannelBlock);
  int32_t* acc = base + kChannelBlock + conv::kNarrowCodesBytes / 4;
  int32_t* terms = acc + kEpilogueRows * kChannelBlock;
  uint8_t* unpacked = reinterpret_cast<uint8_t*>(terms + panel_rows);
  uint8_t* panel = unpacked + steps * 32;
  const uint8_t* first_block = reinterpret_cast<const uint8_t*>(header + 1);
  terms[0] = 0;
  const bool adds = p->residual != nullptr;
  // If blocks that can be made codes add the residual themselves, all other blocks must do so as
  // well.
  const bool to_codes = !sums && conv::CanMakeCodes(p) && conv::HasBytes(p);
  if (to_codes) conv::SetOutput(p, codes);

  for (int32_t row = p->row_begin; row < p->row_end; row += panel_rows) {
    const int32_t count = p->row_end - row < panel_rows ? p->row_end - row : panel_rows;
    const bool unpack = nibbles && count >= kSmallTile;
    const Tiles tiles = Tiles::Of(count);
    const uint8_t* block = first_block;
    for (int32_t group = 0; group < g.groups; ++group) {
      const uint8_t* a = panel;
      ptrdiff_t lda = steps * kDot7Group;
      if (in_place) {
        lda = g.input_stride;
        a = static_cast<const uint8_t*>(p->input) + row * lda + group * group_in;
      } else if (p->input_packed != 0) {
        rq_conv_gather_nibbles(p, group * group_in, row, count, header->input_add, zero_point,
                               header->offset, panel, lda, sums ? terms : nullptr);
      } else if (sums) {
        rq_conv_gather_sums(p, group * group_in, row, count, header->input_add, zero_point,
                            header->offset, panel, lda, terms);
      } else {
        rq_conv_gather_bytes(p, group * group_in, row, count, header->input_add, zero_point, panel,
                             lda);
      }
      for (int32_t b = 0; b < blocks; ++b, block += block_bytes) {
        const int32_t channel = b * kChannelBlock;
        const int32_t n = group_out - channel < kChannelBlock ? group_out - channel : kChannelBlock;
        const auto& segment =
            *reinterpret_cast<const conv::NarrowSegment*>(block + conv::kNarrowSegment);
        const uint8_t* w = block + conv::kNarrowBlockHeader;
        if (unpack) {
          Unpack(w, steps, weight_add, unpacked);
          w = unpacked;
        }
        const int32_t out_channel = group * group_out + channel;
        int32_t r = 0;
        if (!sums) Bases(block, zero_point, terms, 1, base);
        if (to_codes && conv::SetCodes(p, segment, steps, base, out_channel, codes)) {
          r = RowsOf(tiles);
          if (adds) {
            CodeRows<true>(p, a, lda, w, steps, segment.steps, base, codes, tiles, row, out_channel,
                           acc);
          } else {
            CodeRows<false>(p, a, lda, w, steps, segment.steps, base, codes, tiles, row,
                            out_channel, acc);
          }
        }
        for (; r < count; r += kEpilogueRows) {
          const int32_t strip = count - r < kEpilogueRows ? count - r : kEpilogueRows;
          if (sums) {
            Bases(block, zero_point, terms + r, strip, acc);
            NarrowRows<NarrowWeights>(a + r * lda, lda, w, nibbles && !unpack, weight_add, steps,
                                      segment.steps, acc, kChannelBlock, strip, acc);
          } else {
            NarrowRows<NarrowInputs>(a + r * lda, lda, w, nibbles && !unpack, weight_add, steps,
                                     segment.steps, base, 0, strip, acc);
          }
          bitserial::Finish(p, acc, row + r, strip, out_channel, n);
          if (to_codes && adds) rq_conv_add_residual(p, row + r, strip, out_channel, n);
        }
      }
    }
    if (!to_codes) conv::AddResidual(p, row, count);
  }
}
