// 8-bit convolution whose weights (minus zero point) lie in [-64, 63], for relaxed SIMD.
//
// i16x8.relaxed_dot_i8x16_i7x16 multiplies sixteen bytes and adds pairs; all engines agree on it
// only while its second operand is in [0, 127]. So the weights are coded w' = w + 64, and the
// inputs x' are signed bytes (unsigned ones minus 128, with zero point z' = z - 128). Then, with
// padding holding z',
//
//   sum((x' - z') * w) = sum(x' * w') - 64 * sum(x') - z' * sum(w)
//
// where sum(x') of a row is taken while its panel is packed and sum(w) is packed with the weights.
// A pair sum is at most 2 * 128 * 127 < 2^15: exact; each is widened to int32 at once. Weights are
// [K / 4][8 channels][4] behind 8 biases and 8 sums.
#include "kernels/conv/finish.h"
#include "kernels/conv/gather_bytes.h"

namespace requant {
namespace {

using conv::kChannelBlock;
using conv::kDot7Group;
using conv::kEpilogueRows;

/// Rows of a register tile. More gain nothing, and unrolling over k makes V8 spill (101 against 121
/// GOPS on x86-64); passing over the rows as product.h does gives 107.
constexpr int32_t kTile = 4;

RQ_INLINE v128_t Step(v128_t x, v128_t w, v128_t acc) {
  return wasm_i32x4_add(acc, wasm_i32x4_extadd_pairwise_i16x8(simd::DotI8I7(x, w)));
}

/// out[kRows][8]; row_terms holds -64 * sum(x') of each row.
template <int kRows>
__attribute__((noinline)) void Tile(const int8_t* a, ptrdiff_t lda, const int32_t* row_terms,
                                    const uint8_t* block, int32_t steps, int32_t zero_point,
                                    int32_t* out) {
  v128_t acc0[kRows], acc1[kRows];
  const int8_t* rows[kRows];
  const v128_t zero = wasm_i32x4_splat(zero_point);
  const v128_t base0 =
      wasm_i32x4_sub(wasm_v128_load(block), wasm_i32x4_mul(zero, wasm_v128_load(block + 32)));
  const v128_t base1 =
      wasm_i32x4_sub(wasm_v128_load(block + 16), wasm_i32x4_mul(zero, wasm_v128_load(block + 48)));
  const uint8_t* w = block + 64;
  RQ_UNROLL for (int i = 0; i < kRows; ++i) {
    const v128_t term = wasm_v128_load32_splat(row_terms + i);
    acc0[i] = wasm_i32x4_add(base0, term);
    acc1[i] = wasm_i32x4_add(base1, term);
    rows[i] = a + i * lda;
  }
  for (; steps > 0; --steps, w += 32) {
    const v128_t b0 = wasm_v128_load(w), b1 = wasm_v128_load(w + 16);
    RQ_UNROLL for (int i = 0; i < kRows; ++i) {
      const v128_t x = wasm_v128_load32_splat(rows[i]);
      acc0[i] = Step(x, b0, acc0[i]);
      acc1[i] = Step(x, b1, acc1[i]);
      rows[i] += kDot7Group;
    }
  }
  RQ_UNROLL for (int i = 0; i < kRows; ++i) {
    wasm_v128_store(out + i * kChannelBlock, acc0[i]);
    wasm_v128_store(out + i * kChannelBlock + 4, acc1[i]);
  }
}

RQ_INLINE void Rows(const int8_t* a, ptrdiff_t lda, const int32_t* terms, const uint8_t* block,
                    int32_t steps, int32_t zero_point, int32_t count, int32_t* out) {
  for (; count >= kTile; count -= kTile) {
    Tile<kTile>(a, lda, terms, block, steps, zero_point, out);
    a += kTile * lda, terms += kTile, out += kTile * kChannelBlock;
  }
  for (; count >= 1; --count) {
    Tile<1>(a, lda, terms, block, steps, zero_point, out);
    a += lda, ++terms, out += kChannelBlock;
  }
}

}  // namespace
}  // namespace requant

void rq_conv_q8_dot7(const requant::ConvQ8Params* p) {
  using namespace requant;
  const ConvGeometry& g = p->geometry;
  const int32_t steps = (conv::Depth(g) + kDot7Group - 1) / kDot7Group;
  const ptrdiff_t lda = static_cast<ptrdiff_t>(steps) * kDot7Group;
  const int32_t group_in = g.in_c / g.groups, group_out = g.out_c / g.groups;
  const int32_t blocks = (group_out + kChannelBlock - 1) / kChannelBlock;
  const ptrdiff_t block_bytes = kChannelBlock * 8 + kChannelBlock * lda;
  const int32_t panel_rows =
      conv::PanelRows(g, steps * kDot7Group + static_cast<int32_t>(sizeof(int32_t)));
  const int32_t zero_point = p->input_signed ? p->input_zero_point : p->input_zero_point - 128;
  int32_t* acc = static_cast<int32_t*>(p->workspace);
  int32_t* terms = acc + kEpilogueRows * kChannelBlock;
  int8_t* panel = reinterpret_cast<int8_t*>(terms + panel_rows);

  for (int32_t row = p->row_begin; row < p->row_end; row += panel_rows) {
    const int32_t count = p->row_end - row < panel_rows ? p->row_end - row : panel_rows;
    const uint8_t* w = static_cast<const uint8_t*>(p->weights);
    for (int32_t group = 0; group < g.groups; ++group) {
      rq_conv_gather_sums(p, group * group_in, row, count, p->input_signed ? 0 : 128, zero_point,
                          -64, panel, lda, terms);
      for (int32_t b = 0; b < blocks; ++b, w += block_bytes) {
        const int32_t channel = b * kChannelBlock;
        const int32_t n = group_out - channel < kChannelBlock ? group_out - channel : kChannelBlock;
        for (int32_t r = 0; r < count; r += kEpilogueRows) {
          const int32_t strip = count - r < kEpilogueRows ? count - r : kEpilogueRows;
          Rows(panel + r * lda, lda, terms + r, w, steps, zero_point, strip, acc);
          conv::Finish(p, acc, row + r, strip, group * group_out + channel, n);
        }
      }
    }
  }
}
