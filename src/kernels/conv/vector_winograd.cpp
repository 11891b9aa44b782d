// 3x3 convolution of few bits with 16 instead of 36 products for four outputs: Winograd's F(2x2,
// 3x3) in integers, exact.
//
// Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (arXiv:1509.09308), section
// 4.1: with
//
//          1  0 -1  0            1    0    0            1  1  1  0
//   B^T =  0  1  1  0     G =   1/2  1/2  1/2    A^T =  0  1 -1 -1
//          0 -1  1  0           1/2 -1/2  1/2
//          0  1  0 -1            0    0    1
//
// the outputs of a tile are A^T (G g G^T * B^T d B) A. Here 2 G takes the place of G, which makes
// them four times as large, in integers: the shift by two at the end leaves nothing behind.
//
// Codes x of at most 32 neighbours, less the least, become B^T x B in +-2 range or, at point (1,
// 1), in 0 to 4 range. All but that one get 2 range added, so that they are bytes in [0, 127]; what
// this adds to the outputs (`excess`) is subtracted again. Weights of at most four bits become
// signed bytes of at most 9 * 14. Everything is modulo 256 until then, so the bytes' type is of no
// matter.
//
// A panel of tiles is transformed at once, each block of eight output channels has its weights
// unpacked and transformed (4 to 14 % of the time; kept, they would be four times the bytes), then
// sixteen matrix products are transformed back.
#include "kernels/bitserial/nibbles_simd.h"
#include "kernels/conv/narrow_rows.h"
#include "kernels/conv/winograd.h"
#include "kernels/dot8.h"

namespace requant {
namespace {

using conv::kChannelBlock, conv::kWinogradChannels, conv::kWinogradPoints, conv::kWinogradTaps;
constexpr int32_t kSteps = conv::kWinogradSteps;

/// `count` tiles of one line of tiles, of which the first is `at` in the panel.
struct Strip {
  int32_t image, line, column, count, at;
};
template <typename Each>
RQ_INLINE void ForEachStrip(const ConvGeometry& g, int32_t first, int32_t last, Each each) {
  const int32_t columns = conv::WinogradTileColumns(g), lines = conv::WinogradTileLines(g);
  for (int32_t tile = first; tile < last;) {
    const int32_t column = tile % columns, line = tile / columns;
    const int32_t count = last - tile < columns - column ? last - tile : columns - column;
    each(Strip{line / lines, line % lines, column, count, tile - first});
    tile += count;
  }
}

/// out[4][columns] = B^T times the columns of sixteen channels from `channel` on. `padding` is room
/// for a pixel of it.
template <bool kPacked>
__attribute__((noinline)) void TransformColumns(const ConvQ8Params* p, int32_t image, int32_t x0,
                                                int32_t y0, int32_t columns, int32_t channel,
                                                uint8_t* padding, uint8_t* out) {
  const ConvGeometry& g = p->geometry;
  const ptrdiff_t line_bytes = static_cast<ptrdiff_t>(columns) * kWinogradChannels;
  const v128_t zero_point = wasm_i8x16_splat(static_cast<int8_t>(p->input_zero_point));
  const v128_t least = wasm_i8x16_splat(static_cast<int8_t>(p->input_base));
  wasm_v128_store(padding, zero_point);
  const ptrdiff_t pixel = kPacked ? g.input_stride / 2 : g.input_stride;
  const uint8_t* from[4];
  ptrdiff_t step[4];
  v128_t image_mask[4];
  RQ_UNROLL for (int r = 0; r < 4; ++r) {
    const int32_t y = y0 + r;
    const bool inside = y >= 0 && y < g.in_h;
    step[r] = inside ? pixel : 0;
    image_mask[r] = wasm_i32x4_splat(inside ? -1 : 0);
    from[r] = padding;
    if (inside) {
      from[r] = static_cast<const uint8_t*>(p->input) + (kPacked ? channel / 2 : channel) +
                (static_cast<ptrdiff_t>(image * g.in_h + y) * g.in_w + x0) * pixel;
    }
  }
  for (int32_t c = 0; c < columns; ++c, out += kWinogradChannels) {
    v128_t d[4];
    if (x0 + c < 0 || x0 + c >= g.in_w) {
      RQ_UNROLL for (int r = 0; r < 4; ++r) d[r] = zero_point;
    } else {
      RQ_UNROLL for (int r = 0; r < 4; ++r) {
        const uint8_t* in = from[r] + c * step[r];
        if (!kPacked) {
          d[r] = wasm_v128_load(in);
        } else {  // less the least code: the zero point may be none of the sixteen
          d[r] = wasm_i8x16_add(bitserial::UnpackLow(wasm_v128_load64_zero(in)), least);
          d[r] = wasm_v128_bitselect(d[r], zero_point, image_mask[r]);
        }
      }
    }
    wasm_v128_store(out, wasm_i8x16_sub(d[0], d[2]));
    wasm_v128_store(out + line_bytes, wasm_i8x16_add(d[1], d[2]));
    wasm_v128_store(out + 2 * line_bytes, wasm_i8x16_sub(d[2], d[1]));
    wasm_v128_store(out + 3 * line_bytes, wasm_i8x16_sub(d[1], d[3]));
  }
}

/// One line of that times B, plus `add`, or `add1` at its second point.
__attribute__((noinline)) void TransformLine(const uint8_t* in, int32_t count, v128_t add,
                                             v128_t add1, ptrdiff_t pitch, ptrdiff_t point_bytes,
                                             uint8_t* out) {
  v128_t c0 = wasm_i8x16_add(wasm_v128_load(in), add);
  v128_t c1 = wasm_v128_load(in + kWinogradChannels);
  for (; count > 0; --count, out += pitch) {
    in += 2 * kWinogradChannels;
    const v128_t c2 = wasm_v128_load(in), c3 = wasm_v128_load(in + kWinogradChannels);
    const v128_t c2_more = wasm_i8x16_add(c2, add);
    wasm_v128_store(out, wasm_i8x16_sub(c0, c2));
    wasm_v128_store(out + point_bytes, wasm_i8x16_add(wasm_i8x16_add(c1, add1), c2));
    wasm_v128_store(out + 2 * point_bytes, wasm_i8x16_sub(c2_more, c1));
    wasm_v128_store(out + 3 * point_bytes, wasm_i8x16_add(wasm_i8x16_sub(c1, c3), add));
    c0 = c2_more;
    c1 = c3;
  }
}

/// A line of (2 G) g times (2 G)^T to four points.
RQ_INLINE void StoreTaps(v128_t g0, v128_t g1, v128_t g2, ptrdiff_t point_bytes, uint8_t* out) {
  const v128_t sum = wasm_i8x16_add(g0, g2);
  wasm_v128_store(out, wasm_i8x16_add(g0, g0));
  wasm_v128_store(out + point_bytes, wasm_i8x16_add(sum, g1));
  wasm_v128_store(out + 2 * point_bytes, wasm_i8x16_sub(sum, g1));
  wasm_v128_store(out + 3 * point_bytes, wasm_i8x16_add(g2, g2));
}

/// Weights of `steps` times four input channels by eight output channels, from nibbles to [8][4]
/// bytes each at out + point * kWinogradWeightBytes.
__attribute__((noinline)) void TransformWeights(const uint8_t* packed, int32_t steps,
                                                int32_t offset, uint8_t* out) {
  // A constant, which needs no registers.
  constexpr ptrdiff_t kPoint = conv::kWinogradWeightBytes;
  const v128_t add = wasm_i8x16_splat(static_cast<int8_t>(offset));
  const v128_t mask = simd::LoopConstant(int8_t{15}, static_cast<size_t>(steps));
  for (; steps > 0; --steps, packed += kWinogradTaps * 16, out += 32) {
    RQ_UNROLL for (int half = 0; half < 2; ++half) {
      const auto tap = [&](int y, int x) __attribute__((always_inline)) {
        v128_t both = wasm_v128_load(packed + (3 * y + x) * 16);
        if (half != 0) both = wasm_u16x8_shr(both, 4);
        return wasm_i8x16_add(wasm_v128_and(both, mask), add);
      };
      uint8_t* to = out + half * 16;
      v128_t first[3], last[3], sum[3], more[3];
      RQ_UNROLL for (int x = 0; x < 3; ++x) {
        const v128_t g0 = tap(0, x), g2 = tap(2, x);
        first[x] = wasm_i8x16_add(g0, g0);
        last[x] = wasm_i8x16_add(g2, g2);
        sum[x] = wasm_i8x16_add(g0, g2);
      }
      StoreTaps(first[0], first[1], first[2], kPoint, to);
      StoreTaps(last[0], last[1], last[2], kPoint, to + 12 * kPoint);
      RQ_UNROLL for (int x = 0; x < 3; ++x) {
        const v128_t g1 = tap(1, x);
        more[x] = wasm_i8x16_add(sum[x], g1);
        sum[x] = wasm_i8x16_sub(sum[x], g1);
      }
      StoreTaps(more[0], more[1], more[2], kPoint, to + 4 * kPoint);
      StoreTaps(sum[0], sum[1], sum[2], kPoint, to + 8 * kPoint);
    }
  }
}

/// A^T of four values.
RQ_INLINE void TransformOutputs(const v128_t* m, v128_t* out) {
  out[0] = wasm_i32x4_add(wasm_i32x4_add(m[0], m[1]), m[2]);
  out[1] = wasm_i32x4_sub(wasm_i32x4_sub(m[1], m[2]), m[3]);
}

/// From the products of `count` tiles, [8] for each point, to sums: two lines of twice as many rows
/// of 8.
__attribute__((noinline)) void TransformProducts(const int32_t* products, const int32_t* totals,
                                                 int32_t count, int32_t* out) {
  constexpr ptrdiff_t kPoint = conv::kWinogradProductBytes / 4;
  const ptrdiff_t line = static_cast<ptrdiff_t>(count) * 2 * kChannelBlock;
  for (; count > 0; --count, products += kChannelBlock, out += 2 * kChannelBlock) {
    RQ_UNROLL for (int half = 0; half < kChannelBlock; half += 4) {
      v128_t columns[4][2];
      RQ_UNROLL for (int j = 0; j < 4; ++j) {
        v128_t m[4];
        RQ_UNROLL for (int i = 0; i < 4; ++i) {
          m[i] = wasm_v128_load(products + (4 * i + j) * kPoint + half);
        }
        TransformOutputs(m, columns[j]);
      }
      RQ_UNROLL for (int y = 0; y < 2; ++y) {
        v128_t m[4], sums[2];
        RQ_UNROLL for (int j = 0; j < 4; ++j) m[j] = columns[j][y];
        TransformOutputs(m, sums);
        RQ_UNROLL for (int x = 0; x < 2; ++x) {
          const v128_t total = wasm_v128_load(totals + (2 * y + x) * kChannelBlock + half);
          wasm_v128_store(out + y * line + x * kChannelBlock + half,
                          wasm_i32x4_shr(wasm_i32x4_add(sums[x], total), 2));
        }
      }
    }
  }
}

/// What is added to four times the outputs of a block.
RQ_INLINE void StoreTotals(const conv::WinogradBlock* block, int32_t zero_point, int32_t* totals) {
  RQ_UNROLL for (int half = 0; half < kChannelBlock; half += 4) {
    const v128_t base = wasm_i32x4_shl(simd::LoadBase(block->bias + half, zero_point), 2);
    RQ_UNROLL for (int o = 0; o < conv::kWinogradOutputs; ++o) {
      wasm_v128_store(totals + o * kChannelBlock + half,
                      wasm_i32x4_sub(base, wasm_v128_load(block->excess[o] + half)));
    }
  }
}

/// Calls finish(from, row, count) for the rows of a strip that are asked for: `from` counts those
/// of its sums.
template <typename Each>
RQ_INLINE void ForEachLineOf(const ConvQ8Params* p, const Strip& strip, Each finish) {
  const ConvGeometry& g = p->geometry;
  const int32_t x = 2 * strip.column;
  const int32_t width = g.out_w - x < 2 * strip.count ? g.out_w - x : 2 * strip.count;
  for (int32_t dy = 0; dy < 2 && 2 * strip.line + dy < g.out_h; ++dy) {
    const int32_t row = (strip.image * g.out_h + 2 * strip.line + dy) * g.out_w + x;
    const int32_t begin = row < p->row_begin ? p->row_begin : row;
    const int32_t end = row + width > p->row_end ? p->row_end : row + width;
    if (begin < end) finish(dy * 2 * strip.count + begin - row, begin, end - begin);
  }
}

/// [count][8] products for each point = from + the products of so many tiles with transformed
/// weights: as Pass of product.h, all in one call. Both operands are such that every engine agrees
/// on the products; where these are one instruction (rq_dot8) they are fast.
__attribute__((noinline)) void MultiplyDot8(const uint8_t* panel, ptrdiff_t pitch,
                                            const uint8_t* weights, int32_t steps,
                                            const int32_t* from, ptrdiff_t from_step, int32_t count,
                                            int32_t* products) {
  constexpr int kUnroll = kWinogradChannels / conv::kWinogradGroup;
  for (int32_t point = 0; point < kWinogradPoints; ++point) {
    const uint8_t* w = weights;
    const int32_t* begin = from;
    ptrdiff_t begin_step = from_step;
    for (int32_t k = 0; k < steps * conv::kWinogradGroup; k += kWinogradChannels) {
      v128_t w0[kUnroll], w1[kUnroll];
      RQ_UNROLL for (int u = 0; u < kUnroll; ++u) {
        w0[u] = wasm_v128_load(w + u * 32);
        w1[u] = wasm_v128_load(w + u * 32 + 16);
      }
      w += kUnroll * 32;
      const uint8_t* a = panel + k;
      const int32_t* in = begin;
      int32_t* out = products;
      for (int32_t row = 0; row < count; ++row) {
        v128_t acc0 = wasm_v128_load(in), acc1 = wasm_v128_load(in + 4);
        RQ_UNROLL for (int u = 0; u < kUnroll; ++u) {
          const v128_t x = wasm_v128_load32_splat(a + u * conv::kWinogradGroup);
          acc0 = simd::DotI8I7Add(w0[u], x, acc0);
          acc1 = simd::DotI8I7Add(w1[u], x, acc1);
        }
        wasm_v128_store(out, acc0);
        wasm_v128_store(out + 4, acc1);
        a += pitch;
        in += begin_step;
        out += kChannelBlock;
      }
      begin = products;
      begin_step = kChannelBlock;
    }
    panel += count * pitch;
    weights += conv::kWinogradWeightBytes;
    products += conv::kWinogradProductBytes / 4;
    if (from_step != 0) from = products;
  }
}

/// The same by sums of int16 of so many steps (vector_narrow.cpp).
RQ_INLINE void MultiplyNarrow(const uint8_t* panel, ptrdiff_t pitch, const uint8_t* weights,
                              int32_t steps, int32_t segment, const int32_t* from,
                              ptrdiff_t from_step, int32_t count, int32_t* products) {
  for (int32_t point = 0; point < kWinogradPoints; ++point) {
    rq_conv_narrow_rows(panel, pitch, weights, steps, segment, from, from_step, count, products);
    panel += count * pitch;
    weights += conv::kWinogradWeightBytes;
    products += conv::kWinogradProductBytes / 4;
    if (from_step != 0) from = products;
  }
}

/// Tiles [first, first + count) of all images, [16][count][pitch]; `lines` is room for what is
/// transformed in one direction, `padding` for a pixel.
RQ_INLINE void TransformInputs(const ConvQ8Params* p, const conv::WinogradHeader* header,
                               int32_t first, int32_t count, uint8_t* lines, uint8_t* padding,
                               uint8_t* panel) {
  const ConvGeometry& g = p->geometry;
  const v128_t more = wasm_i8x16_splat(static_cast<int8_t>(2 * header->input_range));
  const v128_t least = wasm_i8x16_splat(static_cast<int8_t>(-4 * header->input_lo));
  const ptrdiff_t pitch = conv::WinogradPitch(g), point_bytes = count * pitch;
  ForEachStrip(
      g, first, first + count, [&](const Strip& strip) __attribute__((always_inline)) {
        const int32_t x = 2 * strip.column - g.pad_left, y = 2 * strip.line - g.pad_top;
        const int32_t width = 2 * strip.count + 2;
        for (int32_t channel = 0; channel < g.in_c; channel += kWinogradChannels) {
          if (p->input_packed != 0) {
            TransformColumns<true>(p, strip.image, x, y, width, channel, padding, lines);
          } else {
            TransformColumns<false>(p, strip.image, x, y, width, channel, padding, lines);
          }
          const uint8_t* line = lines;
          uint8_t* out = panel + strip.at * pitch + channel;
          for (int32_t i = 0; i < 4; ++i) {
            TransformLine(line, strip.count, more, i == 1 ? least : more, pitch, point_bytes, out);
            line += width * kWinogradChannels;
            out += 4 * point_bytes;
          }
        }
      });
}

/// The line of tiles, of all images, that an output belongs to.
RQ_INLINE int32_t TileLineOf(const ConvGeometry& g, int32_t row) {
  const int32_t line = row / g.out_w;
  return line / g.out_h * conv::WinogradTileLines(g) + line % g.out_h / 2;
}

}  // namespace
}  // namespace requant

void rq_conv_q8_winograd(const requant::ConvQ8Params* p) {
  using namespace requant;
  const ConvGeometry& g = p->geometry;
  const auto* header = static_cast<const conv::WinogradHeader*>(p->weights);
  const int32_t steps = g.in_c / conv::kWinogradGroup;
  const ptrdiff_t pitch = conv::WinogradPitch(g);
  const ptrdiff_t block_bytes = static_cast<ptrdiff_t>(sizeof(conv::WinogradBlock)) +
                                static_cast<ptrdiff_t>(steps) * kWinogradTaps * 16;
  const conv::WinogradWorkspace bytes = conv::WinogradWorkspaceOf(g);
  int32_t* totals = static_cast<int32_t*>(p->workspace);
  int32_t* zeros = totals + conv::kWinogradOutputs * kChannelBlock;
  int32_t* products = totals + bytes.totals / 4;
  int32_t* sums = products + bytes.products / 4;
  uint8_t* weights = reinterpret_cast<uint8_t*>(sums + bytes.sums / 4);
  uint8_t* lines = weights + bytes.weights;
  uint8_t* panel = lines + bytes.lines;
  wasm_v128_store(zeros, wasm_i32x4_splat(0));
  wasm_v128_store(zeros + 4, wasm_i32x4_splat(0));

  const int32_t columns = conv::WinogradTileColumns(g), most = conv::WinogradPanelTiles(g);
  const int32_t last = (TileLineOf(g, p->row_end - 1) + 1) * columns;
  for (int32_t tile = TileLineOf(g, p->row_begin) * columns; tile < last; tile += most) {
    const int32_t count = last - tile < most ? last - tile : most;
    TransformInputs(p, header, tile, count, lines, panel - kWinogradChannels, panel);
    const uint8_t* at = reinterpret_cast<const uint8_t*>(header + 1);
    for (int32_t channel = 0; channel < g.out_c; channel += kChannelBlock, at += block_bytes) {
      const auto* block = reinterpret_cast<const conv::WinogradBlock*>(at);
      const int32_t n = g.out_c - channel < kChannelBlock ? g.out_c - channel : kChannelBlock;
      const uint8_t* w = at + sizeof(conv::WinogradBlock);
      const int32_t* from = zeros;
      ptrdiff_t from_step = 0;
      for (int32_t step = 0; step < steps; step += kSteps, w += kSteps * kWinogradTaps * 16) {
        const int32_t some = steps - step < kSteps ? steps - step : kSteps;
        const uint8_t* inputs = panel + step * conv::kWinogradGroup;
        TransformWeights(w, some, header->offset, weights);
        if (header->dot8 != 0) {
          MultiplyDot8(inputs, pitch, weights, some, from, from_step, count, products);
        } else {
          MultiplyNarrow(inputs, pitch, weights, some, block->segment, from, from_step, count,
                         products);
        }
        from = products;
        from_step = kChannelBlock;
      }
      StoreTotals(block, p->input_zero_point - header->input_lo, totals);
      ForEachStrip(
          g, tile, tile + count, [&](const Strip& strip) __attribute__((always_inline)) {
            TransformProducts(products + strip.at * kChannelBlock, totals, strip.count, sums);
            ForEachLineOf(
                p,
                strip, [&](int32_t sum, int32_t row, int32_t rows) __attribute__((always_inline)) {
                  bitserial::Finish(p, sums + sum * kChannelBlock, row, rows, channel, n);
                });
          });
    }
    ForEachStrip(
        g, tile, tile + count, [&](const Strip& strip) __attribute__((always_inline)) {
          ForEachLineOf(
              p, strip, [&](int32_t, int32_t row, int32_t rows) __attribute__((always_inline)) {
                conv::AddResidual(p, row, rows);
              });
        });
  }
}
