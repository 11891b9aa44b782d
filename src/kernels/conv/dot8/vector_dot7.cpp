// 8-bit convolution whose weights (minus zero point) lie in [-64, 63], for relaxed SIMD.
//
// i16x8.relaxed_dot_i8x16_i7x16 multiplies sixteen bytes and adds pairs; all engines agree on it
// only while its second operand is in [0, 127]. So the weights are coded w' = w + 64, and the
// inputs x' are signed bytes (unsigned ones minus 128, with zero point z' = z - 128). Then, with
// padding holding z',
//
//   sum((x' - z') * w) = sum(x' * w') - 64 * sum(x') - z' * sum(w)
//
// where the gathering of a panel also sums each row's x', and sum(w) is packed with the weights. A
// pair sum is at most 2 * 128 * 127 < 2^15, so it is exact; each is widened to int32 at once.
// Weights are [K / 4][8 channels][4] behind 8 biases and 8 sums. Windows are gathered, or read in
// place on a ring of lines (ring.h), whose x' are summed by line.
#include "kernels/conv/finish.h"
#include "kernels/conv/gather/gather_bytes.h"
#include "kernels/conv/ring.h"
#include "kernels/dot8.h"

namespace requant {
namespace {

using conv::kChannelBlock;
using conv::kDot7Group;
using conv::kEpilogueRows;

/// Rows of a register tile. More rows gain nothing, and unrolling over k makes V8 spill (101
/// against 121 GOPS on x86-64); passing over the rows as product.h does gives 107.
constexpr int32_t kTile = 4;

/// The difference of a weight and its code.
constexpr int32_t kOffset = -64;

/// Bytes of a block's biases and sums.
constexpr ptrdiff_t kHeaderBytes = kChannelBlock * 8;

RQ_INLINE v128_t Step(v128_t x, v128_t w, v128_t acc) {
  return wasm_i32x4_add(acc, wasm_i32x4_extadd_pairwise_i16x8(simd::DotI8I7(x, w)));
}

/// out[kRows][8] = from + terms + the products. `from`, which may be `out`, has rows from_step
/// int32 apart; terms[i] is -64 * sum(x') of row i.
template <int kRows>
__attribute__((noinline)) void Tile(const int8_t* a, ptrdiff_t lda, const uint8_t* w, int32_t steps,
                                    const int32_t* from, ptrdiff_t from_step, const int32_t* terms,
                                    int32_t* out) {
  v128_t acc0[kRows], acc1[kRows];
  const int8_t* rows[kRows];
  RQ_UNROLL for (int i = 0; i < kRows; ++i) {
    const v128_t term = wasm_v128_load32_splat(terms + i);
    acc0[i] = wasm_i32x4_add(wasm_v128_load(from + i * from_step), term);
    acc1[i] = wasm_i32x4_add(wasm_v128_load(from + i * from_step + 4), term);
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

__attribute__((noinline)) void Rows(const int8_t* a, ptrdiff_t lda, const uint8_t* w, int32_t steps,
                                    const int32_t* from, ptrdiff_t from_step, const int32_t* terms,
                                    int32_t count, int32_t* out) {
  for (; count >= kTile; count -= kTile) {
    Tile<kTile>(a, lda, w, steps, from, from_step, terms, out);
    a += kTile * lda, from += kTile * from_step, terms += kTile, out += kTile * kChannelBlock;
  }
  for (; count >= 1; --count) {
    Tile<1>(a, lda, w, steps, from, from_step, terms, out);
    a += lda, from += from_step, ++terms, out += kChannelBlock;
  }
}

/// The parts of the workspace; each kernel divides `rest` further.
struct Buffers {
  int32_t* base;  ///< initial accumulators of a block
  int32_t* acc;
  int32_t* rest;
};
RQ_INLINE Buffers BuffersOf(const ConvQ8Params* p) {
  int32_t* base = static_cast<int32_t*>(p->workspace);
  return {base, base + kChannelBlock, base + kChannelBlock + kEpilogueRows * kChannelBlock};
}
RQ_INLINE int32_t ZeroPointOf(const ConvQ8Params* p) {
  return p->input_signed ? p->input_zero_point : p->input_zero_point - 128;
}

}  // namespace
}  // namespace requant

void rq_conv_q8_dot7(const requant::ConvQ8Params* p) {
  using namespace requant;
  const ConvGeometry& g = p->geometry;
  const int32_t steps = (conv::Depth(g) + kDot7Group - 1) / kDot7Group;
  const ptrdiff_t lda = static_cast<ptrdiff_t>(steps) * kDot7Group;
  const int32_t group_in = g.in_c / g.groups, group_out = g.out_c / g.groups;
  const int32_t panel_rows =
      conv::PanelRows(g, steps * kDot7Group + static_cast<int32_t>(sizeof(int32_t)));
  const int32_t zero_point = ZeroPointOf(p);
  const Buffers buffers = BuffersOf(p);
  int32_t *base = buffers.base, *acc = buffers.acc, *terms = buffers.rest;
  int8_t* panel = reinterpret_cast<int8_t*>(terms + panel_rows);

  for (int32_t row = p->row_begin; row < p->row_end; row += panel_rows) {
    const int32_t count = p->row_end - row < panel_rows ? p->row_end - row : panel_rows;
    const uint8_t* w = static_cast<const uint8_t*>(p->weights);
    for (int32_t group = 0; group < g.groups; ++group) {
      rq_conv_gather_sums(p, group * group_in, row, count, p->input_signed ? 0 : 128, zero_point,
                          kOffset, panel, lda, terms);
      for (int32_t channel = 0; channel < group_out; channel += kChannelBlock) {
        const int32_t n = group_out - channel < kChannelBlock ? group_out - channel : kChannelBlock;
        simd::StoreBase(w, zero_point, base);
        w += kHeaderBytes;
        for (int32_t r = 0; r < count; r += kEpilogueRows) {
          const int32_t strip = count - r < kEpilogueRows ? count - r : kEpilogueRows;
          Rows(panel + r * lda, lda, w, steps, base, 0, terms + r, strip, acc);
          conv::Finish(p, acc, row + r, strip, group * group_out + channel, n);
        }
        w += kChannelBlock * lda;
      }
    }
    conv::AddResidual(p, row, count);
  }
}

void rq_conv_q8_dot7_lines(const requant::ConvQ8Params* p) {
  using namespace requant;
  const ConvGeometry& g = p->geometry;
  const ptrdiff_t step = static_cast<ptrdiff_t>(g.stride_w) * g.in_c;
  const int32_t steps = (g.kernel_w * g.in_c + kDot7Group - 1) / kDot7Group;
  const ptrdiff_t line_bytes = conv::LineElements(g);
  const int32_t zero_point = ZeroPointOf(p);
  const Buffers buffers = BuffersOf(p);
  int32_t *base = buffers.base, *acc = buffers.acc;
  int32_t* terms = buffers.rest;  // [ring lines][out_w]
  int8_t* ring = reinterpret_cast<int8_t*>(terms + g.kernel_h * g.out_w);
  const auto into_ring = [&](int32_t image, int32_t y, int32_t slot)
      __attribute__((always_inline)) {
    int8_t* line = ring + slot * line_bytes;
    rq_conv_pad_line_bytes(p, image, y, p->input_signed ? 0 : 128, zero_point, line);
    rq_conv_sum_rows(line, g.out_w, step, steps * kDot7Group, kOffset, terms + slot * g.out_w);
  };
  const auto multiply = [&](int32_t row, int32_t begin, int32_t end, int32_t top)
      __attribute__((always_inline)) {
    for (int32_t ox = begin; ox < end; ox += kEpilogueRows) {
      const int32_t count = end - ox < kEpilogueRows ? end - ox : kEpilogueRows;
      const uint8_t* w = static_cast<const uint8_t*>(p->weights);
      for (int32_t channel = 0; channel < g.out_c; channel += kChannelBlock) {
        const int32_t n = g.out_c - channel < kChannelBlock ? g.out_c - channel : kChannelBlock;
        simd::StoreBase(w, zero_point, base);
        w += kHeaderBytes;
        const int32_t* from = base;
        for (int32_t y = 0; y < g.kernel_h; ++y, w += steps * 32, from = acc) {
          const int32_t slot = (top + y) % g.kernel_h;
          Rows(ring + slot * line_bytes + ox * step, step, w, steps, from,
               from == base ? 0 : kChannelBlock, terms + slot * g.out_w + ox, count, acc);
        }
        conv::Finish(p, acc, row + ox - begin, count, channel, n);
      }
      conv::AddResidual(p, row + ox - begin, count);
    }
  };
  conv::WalkLines(g, p->row_begin, p->row_end, into_ring, multiply);
}
