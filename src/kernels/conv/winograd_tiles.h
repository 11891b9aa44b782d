#pragma once
// 3x3 convolution with 16 instead of 36 products for four outputs: Winograd's F(2x2, 3x3) in
// integers, exact. Freestanding.
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
// A panel of tiles is transformed at once, each block of eight output channels has its weights
// widened and transformed (kept, they would be three and a half times the bytes), then
// sixteen matrix products are transformed back.
//
// An Operand says what is transformed and multiplied: its kBytes (winograd.h), Add and Sub; how
// codes are read, BytesOf(elements), SourceOf(params) and Load(codes, inside, source); and how
// weights are, Block, WidenWith(offset, steps), Widen(taps, half, with), one tap's weights of four
// output channels, and StoreTotals(params, block, totals), what is added to four times the outputs
// of a block.
#include "kernels/conv/finish.h"
#include "kernels/conv/winograd.h"

namespace requant::conv {

/// `count` tiles of one line of tiles, of which the first is `at` in the panel.
struct TileStrip {
  int32_t image, line, column, count, at;
};
template <typename Each>
RQ_INLINE void ForEachStrip(const ConvGeometry& g, int32_t first, int32_t last, Each each) {
  const int32_t columns = WinogradTileColumns(g), lines = WinogradTileLines(g);
  for (int32_t tile = first; tile < last;) {
    const int32_t column = tile % columns, line = tile / columns;
    const int32_t count = last - tile < columns - column ? last - tile : columns - column;
    each(TileStrip{line / lines, line % lines, column, count, tile - first});
    tile += count;
  }
}

/// Calls finish(from, row, count) for the rows of a strip that are asked for: `from` counts those
/// of its sums.
template <typename Each>
RQ_INLINE void ForEachLineOf(const ConvQ8Params* p, const TileStrip& strip, Each finish) {
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

/// The line of tiles, of all images, that an output belongs to.
RQ_INLINE int32_t TileLineOf(const ConvGeometry& g, int32_t row) {
  const int32_t line = row / g.out_w;
  return line / g.out_h * WinogradTileLines(g) + line % g.out_h / 2;
}

/// out[4][columns] = B^T times the columns of a vector of channels from `channel` on. `padding` is
/// room for a pixel of it.
template <typename Operand>
static __attribute__((noinline)) void TransformColumns(const ConvQ8Params* p, int32_t image,
                                                       int32_t x0, int32_t y0, int32_t columns,
                                                       int32_t channel, uint8_t* padding,
                                                       uint8_t* out) {
  const ConvGeometry& g = p->geometry;
  const ptrdiff_t line_bytes = static_cast<ptrdiff_t>(columns) * kWinogradVector;
  const auto source = Operand::SourceOf(p);
  wasm_v128_store(padding, wasm_i8x16_splat(static_cast<int8_t>(p->input_zero_point)));
  const ptrdiff_t pixel = Operand::BytesOf(g.input_stride);
  const uint8_t* from[4];
  ptrdiff_t step[4];
  bool inside[4];
  RQ_UNROLL for (int r = 0; r < 4; ++r) {
    const int32_t y = y0 + r;
    inside[r] = y >= 0 && y < g.in_h;
    step[r] = inside[r] ? pixel : 0;
    from[r] = padding;
    if (inside[r]) {
      from[r] = static_cast<const uint8_t*>(p->input) + Operand::BytesOf(channel) +
                (static_cast<ptrdiff_t>(image * g.in_h + y) * g.in_w + x0) * pixel;
    }
  }
  for (int32_t c = 0; c < columns; ++c, out += kWinogradVector) {
    const bool in_line = x0 + c >= 0 && x0 + c < g.in_w;
    v128_t d[4];
    RQ_UNROLL for (int r = 0; r < 4; ++r) {
      d[r] = Operand::Load(in_line ? from[r] + c * step[r] : padding, in_line && inside[r], source);
    }
    wasm_v128_store(out, Operand::Sub(d[0], d[2]));
    wasm_v128_store(out + line_bytes, Operand::Add(d[1], d[2]));
    wasm_v128_store(out + 2 * line_bytes, Operand::Sub(d[2], d[1]));
    wasm_v128_store(out + 3 * line_bytes, Operand::Sub(d[1], d[3]));
  }
}

/// One line of that times B, plus `add`, or `add1` at its second point.
template <typename Operand>
static __attribute__((noinline)) void TransformLine(const uint8_t* in, int32_t count, v128_t add,
                                                    v128_t add1, ptrdiff_t pitch,
                                                    ptrdiff_t point_bytes, uint8_t* out) {
  v128_t c0 = Operand::Add(wasm_v128_load(in), add);
  v128_t c1 = wasm_v128_load(in + kWinogradVector);
  for (; count > 0; --count, out += pitch) {
    in += 2 * kWinogradVector;
    const v128_t c2 = wasm_v128_load(in), c3 = wasm_v128_load(in + kWinogradVector);
    const v128_t c2_more = Operand::Add(c2, add);
    wasm_v128_store(out, Operand::Sub(c0, c2));
    wasm_v128_store(out + point_bytes, Operand::Add(Operand::Add(c1, add1), c2));
    wasm_v128_store(out + 2 * point_bytes, Operand::Sub(c2_more, c1));
    wasm_v128_store(out + 3 * point_bytes, Operand::Add(Operand::Sub(c1, c3), add));
    c0 = c2_more;
    c1 = c3;
  }
}

/// Tiles [first, first + count) of all images, [16][count] of `pitch` bytes, plus `more`,
/// or `most` at point (1, 1); `lines` is room for what is transformed in one direction, `padding`
/// for a pixel.
template <typename Operand>
RQ_INLINE void TransformInputs(const ConvQ8Params* p, int32_t first, int32_t count, v128_t more,
                               v128_t most, ptrdiff_t pitch, uint8_t* lines, uint8_t* padding,
                               uint8_t* panel) {
  const ConvGeometry& g = p->geometry;
  constexpr int32_t kChannels = kWinogradVector / Operand::kBytes;
  const ptrdiff_t point_bytes = count * pitch;
  ForEachStrip(
      g, first, first + count, [&](const TileStrip& strip) __attribute__((always_inline)) {
        const int32_t x = 2 * strip.column - g.pad_left, y = 2 * strip.line - g.pad_top;
        const int32_t width = 2 * strip.count + 2;
        for (int32_t channel = 0; channel < g.in_c; channel += kChannels) {
          TransformColumns<Operand>(p, strip.image, x, y, width, channel, padding, lines);
          const uint8_t* line = lines;
          uint8_t* out = panel + strip.at * pitch + channel * Operand::kBytes;
          for (int32_t i = 0; i < 4; ++i) {
            TransformLine<Operand>(line, strip.count, more, i == 1 ? most : more, pitch,
                                   point_bytes, out);
            line += width * kWinogradVector;
            out += 4 * point_bytes;
          }
        }
      });
}

/// A line of (2 G) g times (2 G)^T to four points.
template <typename Operand>
RQ_INLINE void StoreTaps(v128_t g0, v128_t g1, v128_t g2, uint8_t* out) {
  constexpr ptrdiff_t kPoint = kWinogradWeightBytes;
  const v128_t sum = Operand::Add(g0, g2);
  wasm_v128_store(out, Operand::Add(g0, g0));
  wasm_v128_store(out + kPoint, Operand::Add(sum, g1));
  wasm_v128_store(out + 2 * kPoint, Operand::Sub(sum, g1));
  wasm_v128_store(out + 3 * kPoint, Operand::Add(g2, g2));
}

/// Weights of `steps` steps of four bytes by eight output channels, [8][4] bytes each at out +
/// point * kWinogradWeightBytes.
template <typename Operand>
static __attribute__((noinline)) void TransformWeights(const uint8_t* packed, int32_t steps,
                                                       int32_t offset, uint8_t* out) {
  constexpr ptrdiff_t kLine = 4 * kWinogradWeightBytes;
  const auto widen = Operand::WidenWith(offset, steps);
  for (; steps > 0; --steps, packed += kWinogradTaps * 16, out += 32) {
    RQ_UNROLL for (int half = 0; half < 2; ++half) {
      const auto tap = [&](int y, int x) __attribute__((always_inline)) {
        return Operand::Widen(packed + (3 * y + x) * 16, half, widen);
      };
      uint8_t* to = out + half * 16;
      v128_t first[3], last[3], sum[3], more[3];
      RQ_UNROLL for (int x = 0; x < 3; ++x) {
        const v128_t g0 = tap(0, x), g2 = tap(2, x);
        first[x] = Operand::Add(g0, g0);
        last[x] = Operand::Add(g2, g2);
        sum[x] = Operand::Add(g0, g2);
      }
      StoreTaps<Operand>(first[0], first[1], first[2], to);
      StoreTaps<Operand>(last[0], last[1], last[2], to + 3 * kLine);
      RQ_UNROLL for (int x = 0; x < 3; ++x) {
        const v128_t g1 = tap(1, x);
        more[x] = Operand::Add(sum[x], g1);
        sum[x] = Operand::Sub(sum[x], g1);
      }
      StoreTaps<Operand>(more[0], more[1], more[2], to + kLine);
      StoreTaps<Operand>(sum[0], sum[1], sum[2], to + 2 * kLine);
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
template <typename Operand>
static __attribute__((noinline)) void TransformProducts(const int32_t* products,
                                                        const int32_t* totals, int32_t count,
                                                        int32_t* out) {
  constexpr ptrdiff_t kPoint = WinogradProductBytes(Operand::kBytes) / 4;
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

/// The whole convolution: `blocks` are the packed weights behind a header, `more` and `most` as in
/// TransformInputs. multiply(inputs, pitch, weights, steps, block, from, from_step, count,
/// products): [count][8] products for each point = from + the products of so many tiles with
/// transformed weights. finish(sums, row, rows, channel, n) as Finish.
template <typename Operand, typename Multiply, typename End>
RQ_INLINE void ConvWinograd(const ConvQ8Params* p, const uint8_t* blocks, int32_t offset,
                            v128_t more, v128_t most, Multiply multiply, End finish) {
  const ConvGeometry& g = p->geometry;
  const int32_t steps = g.in_c * Operand::kBytes / kWinogradGroup;
  const ptrdiff_t pitch = WinogradPitch(g, Operand::kBytes);
  const ptrdiff_t block_bytes = static_cast<ptrdiff_t>(sizeof(typename Operand::Block)) +
                                static_cast<ptrdiff_t>(steps) * kWinogradTaps * 16;
  const WinogradPartBytes bytes = WinogradParts(g, Operand::kBytes);
  int32_t* totals = static_cast<int32_t*>(p->workspace);
  int32_t* zeros = totals + kWinogradOutputs * kChannelBlock;
  int32_t* sums = totals + bytes.totals / 4;
  uint8_t* weights = reinterpret_cast<uint8_t*>(sums);
  int32_t* products = sums + bytes.weights / 4;
  uint8_t* lines = reinterpret_cast<uint8_t*>(products);
  uint8_t* panel = lines + bytes.products;
  wasm_v128_store(zeros, wasm_i32x4_splat(0));
  wasm_v128_store(zeros + 4, wasm_i32x4_splat(0));

  const int32_t columns = WinogradTileColumns(g);
  const int32_t panel_tiles = WinogradPanelTiles(g, Operand::kBytes);
  const int32_t last = (TileLineOf(g, p->row_end - 1) + 1) * columns;
  for (int32_t tile = TileLineOf(g, p->row_begin) * columns; tile < last; tile += panel_tiles) {
    const int32_t count = last - tile < panel_tiles ? last - tile : panel_tiles;
    TransformInputs<Operand>(p, tile, count, more, most, pitch, lines, panel - kWinogradVector,
                             panel);
    const uint8_t* at = blocks;
    for (int32_t channel = 0; channel < g.out_c; channel += kChannelBlock, at += block_bytes) {
      const auto* block = reinterpret_cast<const typename Operand::Block*>(at);
      const int32_t n = g.out_c - channel < kChannelBlock ? g.out_c - channel : kChannelBlock;
      const uint8_t* w = reinterpret_cast<const uint8_t*>(block + 1);
      const int32_t* from = zeros;
      ptrdiff_t from_step = 0;
      for (int32_t step = 0; step < steps; step += kWinogradSteps) {
        const int32_t some = steps - step < kWinogradSteps ? steps - step : kWinogradSteps;
        TransformWeights<Operand>(w + static_cast<ptrdiff_t>(step) * kWinogradTaps * 16, some,
                                  offset, weights);
        multiply(panel + step * kWinogradGroup, pitch, weights, some, block, from, from_step, count,
                 products);
        from = products;
        from_step = kChannelBlock;
      }
      Operand::StoreTotals(p, block, totals);
      ForEachStrip(
          g, tile, tile + count, [&](const TileStrip& strip) __attribute__((always_inline)) {
            TransformProducts<Operand>(products + strip.at * kChannelBlock, totals, strip.count,
                                       sums);
            ForEachLineOf(
                p,
                strip, [&](int32_t sum, int32_t row, int32_t rows) __attribute__((always_inline)) {
                  finish(sums + sum * kChannelBlock, row, rows, channel, n);
                });
          });
    }
    ForEachStrip(
        g, tile, tile + count, [&](const TileStrip& strip) __attribute__((always_inline)) {
          ForEachLineOf(
              p, strip, [&](int32_t, int32_t row, int32_t rows) __attribute__((always_inline)) {
                AddResidual(p, row, rows);
              });
        });
  }
}

}  // namespace requant::conv
