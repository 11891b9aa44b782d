#pragma once
// 3x3 convolution with fewer products: Winograd's F(m x n, 3x3) in integers, exact. Freestanding.
//
// The outputs of a tile are A^T (G g G^T * B^T d B) A, with its inputs d and the window g; *
// multiplies point by point. A Tile (winograd_tile_*.h) has the matrices, scaled to integers, so
// that sums are `scale` times the outputs; the final division leaves no remainder. A tile of 2 x 2
// outputs:
//
//   inputs d            points (16)        outputs
//   . . . .             p p p p
//   . . . .   B^T d B   p p p p   A^T A    y y       neighboring tiles
//   . . . .  -------->  p p p p  ------->  y y       share 2 lines or columns
//   . . . .             p p p p                      of inputs
//
// The kernel transforms a panel of tiles at a time. Then, for every block of eight output channels,
// it widens and transforms the weights (keeping them transformed would take several times the
// bytes), computes one matrix product for every point, and transforms the products back:
//
//   codes            -- B^T d B -->   panel    [points][tiles][channels]
//   packed weights   -- G g G^T -->   weights  [points][channels][8]
//   panel x weights  ----------->    products [points][tiles][8]
//   products         -- A^T m A -->   sums     [lines][columns][8]  -- requantize -->  output
//
// An Operand says what is transformed and multiplied:
// - its Tile and kShape, and Add, Sub and Twice;
// - how codes are read: IsPacked(params), and PackedCodes and Codes, both with BytesOf(elements),
//   SourceOf(params) and Load(codes, inside, source);
// - how weights are read: Block, kStepBytes, WidenWith(header, steps) and TapColumn(packed, x,
//   half, with, out), the first transform of a column of taps of four output channels;
// - the initial products of each point, bias and zero point included: StoreStarts(params, block,
//   adds, starts), where `adds` was added to the inputs of points. Point (1, 1) counts alike in all
//   outputs.
#include "kernels/conv/finish.h"
#include "kernels/conv/winograd/winograd.h"

namespace requant::conv {

/// Offsets added to transformed inputs, by how many of a point's two axes keep a constant input
/// nonzero (WinogradShape::IsAlike): none, one or both.
struct WinogradAdds {
  int32_t none, one, both;
};

RQ_INLINE int32_t AddOf(const WinogradAdds& adds, bool line_alike, bool column_alike) {
  if (line_alike != column_alike) return adds.one;
  return line_alike ? adds.both : adds.none;
}

/// `count` neighboring tiles of one line of tiles; the first has index `at` in the panel.
struct TileStrip {
  int32_t image, line, column, count, at;
};
template <typename Operand, typename Each>
RQ_INLINE void ForEachStrip(const ConvGeometry& g, int32_t first, int32_t last, Each each) {
  constexpr WinogradShape kShape = Operand::kShape;
  const int32_t columns = WinogradTileColumns(kShape, g), lines = WinogradTileLines(kShape, g);
  for (int32_t tile = first; tile < last;) {
    const int32_t column = tile % columns, line = tile / columns;
    const int32_t count = last - tile < columns - column ? last - tile : columns - column;
    each(TileStrip{line / lines, line % lines, column, count, tile - first});
    tile += count;
  }
}

/// Calls finish(from, row, count) for the rows of a strip within [row_begin, row_end); `from` is
/// the index of their first sum in the strip.
template <typename Operand, typename Each>
RQ_INLINE void ForEachLineOf(const ConvQ8Params* p, const TileStrip& strip, Each finish) {
  constexpr WinogradShape kShape = Operand::kShape;
  const ConvGeometry& g = p->geometry;
  const int32_t x = kShape.out_w * strip.column, all = kShape.out_w * strip.count;
  const int32_t width = g.out_w - x < all ? g.out_w - x : all;
  int32_t y = kShape.out_h * strip.line;
  for (int32_t dy = 0; dy < kShape.out_h && y < g.out_h; ++dy, ++y) {
    const int32_t row = (strip.image * g.out_h + y) * g.out_w + x;
    const int32_t begin = row < p->row_begin ? p->row_begin : row;
    const int32_t end = row + width > p->row_end ? p->row_end : row + width;
    if (begin < end) finish(dy * all + begin - row, begin, end - begin);
  }
}

/// The line of tiles, counted over all images, that contains an output row.
RQ_INLINE int32_t TileLineOf(const WinogradShape& shape, const ConvGeometry& g, int32_t row) {
  const int32_t line = row / g.out_w;
  return line / g.out_h * WinogradTileLines(shape, g) + line % g.out_h / shape.out_h;
}

/// out[lines][columns] = B^T times each column of inputs, for one vector of channels from `channel`
/// on. `padding` has room for one vector.
template <typename Operand, typename Codes>
static __attribute__((noinline)) void TransformColumns(const ConvQ8Params* p, int32_t image,
                                                       int32_t x0, int32_t y0, int32_t columns,
                                                       int32_t channel, uint8_t* padding,
                                                       uint8_t* out) {
  constexpr int kLines = Operand::kShape.Lines();
  const ConvGeometry& g = p->geometry;
  const ptrdiff_t line_bytes = static_cast<ptrdiff_t>(columns) * kWinogradVector;
  const auto source = Codes::SourceOf(p);
  wasm_v128_store(padding, wasm_i8x16_splat(static_cast<int8_t>(p->input_zero_point)));
  const ptrdiff_t pixel = Codes::BytesOf(g.input_stride);
  const uint8_t* from[kLines];
  ptrdiff_t step[kLines];
  bool inside[kLines];
  RQ_UNROLL for (int r = 0; r < kLines; ++r) {
    const int32_t y = y0 + r;
    inside[r] = y >= 0 && y < g.in_h;
    step[r] = inside[r] ? pixel : 0;
    from[r] = padding;
    if (inside[r]) {
      from[r] = static_cast<const uint8_t*>(p->input) + Codes::BytesOf(channel) +
                (static_cast<ptrdiff_t>(image * g.in_h + y) * g.in_w + x0) * pixel;
    }
  }
  for (int32_t c = 0; c < columns; ++c, out += kWinogradVector) {
    const bool in_line = x0 + c >= 0 && x0 + c < g.in_w;
    v128_t d[kLines], lines[kLines];
    RQ_UNROLL for (int r = 0; r < kLines; ++r) {
      d[r] = Codes::Load(in_line ? from[r] + c * step[r] : padding, in_line && inside[r], source);
    }
    Operand::Tile::template Column<Operand>(d, lines);
    RQ_UNROLL for (int r = 0; r < kLines; ++r) wasm_v128_store(out + r * line_bytes, lines[r]);
  }
}

/// Multiplies one line of TransformColumns' result by B and adds `add`, or add_alike at points that
/// keep a constant input nonzero.
template <typename Operand>
static __attribute__((noinline)) void TransformLine(const uint8_t* in, int32_t count, v128_t add,
                                                    v128_t add_alike, ptrdiff_t pitch,
                                                    ptrdiff_t point_bytes, uint8_t* out) {
  constexpr int kColumns = Operand::kShape.Columns(), kShared = Operand::kShape.Shared();
  constexpr int kNext = kColumns - kShared;
  v128_t c[kColumns], points[kColumns];
  RQ_UNROLL for (int j = 0; j < kShared; ++j) c[j] = wasm_v128_load(in + j * kWinogradVector);
  for (; count > 0; --count, out += pitch) {
    RQ_UNROLL for (int j = kShared; j < kColumns; ++j) c[j] =
        wasm_v128_load(in + j * kWinogradVector);
    in += kNext * kWinogradVector;
    Operand::Tile::template Line<Operand>(c, add, add_alike, points);
    RQ_UNROLL for (int j = 0; j < kColumns; ++j) wasm_v128_store(out + j * point_bytes, points[j]);
    RQ_UNROLL for (int j = 0; j < kShared; ++j) c[j] = c[kNext + j];
  }
}

/// Transforms tiles [first, first + count), counted over all images, to panel[points][count] of
/// `pitch` bytes each, and adds `adds`. `lines` has room for inputs transformed in one direction,
/// `padding` for one vector.
template <typename Operand>
RQ_INLINE void TransformInputs(const ConvQ8Params* p, int32_t first, int32_t count,
                               const WinogradAdds& adds, ptrdiff_t pitch, uint8_t* lines,
                               uint8_t* padding, uint8_t* panel) {
  constexpr WinogradShape kShape = Operand::kShape;
  const ConvGeometry& g = p->geometry;
  constexpr int32_t kChannels = kWinogradVector / kShape.operand;
  const ptrdiff_t point_bytes = count * pitch;
  const v128_t none = Operand::Splat(adds.none), one = Operand::Splat(adds.one);
  const v128_t both = Operand::Splat(adds.both);
  ForEachStrip<Operand>(
      g, first, first + count, [&](const TileStrip& strip) __attribute__((always_inline)) {
        constexpr int32_t kStepX = kShape.stride * kShape.out_w;
        const int32_t x = kStepX * strip.column - g.pad_left;
        const int32_t y = kShape.stride * kShape.out_h * strip.line - g.pad_top;
        const int32_t width = kStepX * strip.count + kShape.Shared();
        for (int32_t channel = 0; channel < g.in_c; channel += kChannels) {
          if (Operand::IsPacked(p)) {
            TransformColumns<Operand, typename Operand::PackedCodes>(p, strip.image, x, y, width,
                                                                     channel, padding, lines);
          } else {
            TransformColumns<Operand, typename Operand::Codes>(p, strip.image, x, y, width, channel,
                                                               padding, lines);
          }
          const uint8_t* line = lines;
          uint8_t* out = panel + strip.at * pitch + channel * kShape.operand;
          for (int32_t i = 0; i < kShape.Lines(); ++i) {
            const bool alike = kShape.IsAlike(i);
            TransformLine<Operand>(line, strip.count, alike ? one : none, alike ? both : one, pitch,
                                   point_bytes, out);
            line += width * kWinogradVector;
            out += kShape.Columns() * point_bytes;
          }
        }
      });
}

/// Transforms `steps` steps of four bytes for eight output channels, to [8][4] bytes at out + point
/// * kWinogradWeightBytes.
template <typename Operand>
static __attribute__((noinline)) void TransformWeights(const uint8_t* packed, int32_t steps,
                                                       const void* header, uint8_t* out) {
  using Tile = typename Operand::Tile;
  constexpr int kLines = Operand::kShape.WeightLines();
  constexpr int kColumns = Operand::kShape.WeightColumns();
  const auto widen = Operand::WidenWith(header, steps);
  for (; steps > 0; --steps, packed += Operand::kStepBytes, out += 32) {
    RQ_UNROLL for (int half = 0; half < 2; ++half) {
      v128_t columns[3][kLines];
      RQ_UNROLL for (int x = 0; x < 3; ++x) {
        Operand::TapColumn(packed, x, half, widen, columns[x]);
      }
      uint8_t* to = out + half * 16;
      RQ_UNROLL for (int i = 0; i < kLines; ++i) {
        const v128_t line[3] = {columns[0][i], columns[1][i], columns[2][i]};
        v128_t points[kColumns];
        Tile::template TapLine<Operand>(line, points);
        RQ_UNROLL for (int j = 0; j < kColumns; ++j, to += kWinogradWeightBytes) {
          wasm_v128_store(to, points[j]);
        }
      }
    }
  }
}

/// Transforms the products of `count` tiles, 8 for each point, to outputs: as many lines as a tile
/// has, each of rows of 8.
template <typename Operand>
static __attribute__((noinline)) void TransformProducts(const int32_t* products, int32_t count,
                                                        int32_t* out) {
  using Tile = typename Operand::Tile;
  constexpr WinogradShape kShape = Operand::kShape;
  constexpr int kLines = kShape.Lines(), kColumns = kShape.Columns();
  constexpr ptrdiff_t kPoint = WinogradProductBytes(kShape) / 4;
  constexpr ptrdiff_t kTile = kShape.out_w * kChannelBlock;
  const ptrdiff_t line = count * kTile;
  for (; count > 0; --count, products += kChannelBlock, out += kTile) {
    RQ_UNROLL for (int half = 0; half < kChannelBlock; half += 4) {
      v128_t columns[kColumns][kShape.out_h];
      RQ_UNROLL for (int j = 0; j < kColumns; ++j) {
        v128_t m[kLines];
        RQ_UNROLL for (int i = 0; i < kLines; ++i) {
          m[i] = wasm_v128_load(products + (kColumns * i + j) * kPoint + half);
        }
        Tile::ProductColumn(m, columns[j]);
      }
      RQ_UNROLL for (int y = 0; y < kShape.out_h; ++y) {
        v128_t m[kColumns], sums[kShape.out_w];
        RQ_UNROLL for (int j = 0; j < kColumns; ++j) m[j] = columns[j][y];
        Tile::ProductLine(m, sums);
        RQ_UNROLL for (int x = 0; x < kShape.out_w; ++x) {
          wasm_v128_store(out + y * line + x * kChannelBlock + half, Tile::Output(sums[x]));
        }
      }
    }
  }
}

/// The offset of a point's transformed weights from those of the first point, for tiles of windows
/// with that stride.
RQ_INLINE int32_t WeightBytesBefore(int32_t stride, int32_t point) {
  if (stride == 1) return point * kWinogradWeightBytes;
  constexpr WinogradShape kStrided = kWinogradStridedPairs;
  const int32_t line = point / kStrided.Columns(), column = point % kStrided.Columns();
  return kStrided.WeightPoint(line, column) * kWinogradWeightBytes;
}

/// The values that the products of a step are added to: at + point index * `point` + tile index *
/// `tile`, in int32.
struct WinogradFrom {
  const int32_t* at;
  ptrdiff_t point, tile;
};

/// Runs the whole convolution. The packed weights begin with a header of header_bytes.
/// multiply(inputs, pitch, weights, steps, block, from, count, products) sets products[count][8] of
/// each point to `from` plus the products of `count` tiles with transformed weights. finish(sums,
/// row, rows, channel, n) is as Finish.
template <typename Operand, typename Multiply, typename End>
RQ_INLINE void ConvWinograd(const ConvQ8Params* p, ptrdiff_t header_bytes, const WinogradAdds& adds,
                            Multiply multiply, End finish) {
  constexpr WinogradShape kShape = Operand::kShape;
  constexpr ptrdiff_t kPoint = WinogradProductBytes(kShape) / 4;
  const ConvGeometry& g = p->geometry;
  const uint8_t* header = static_cast<const uint8_t*>(p->weights);
  const int32_t steps = g.in_c * kShape.operand / kWinogradGroup;
  const ptrdiff_t pitch = WinogradPitch(kShape, g);
  const ptrdiff_t block_bytes = static_cast<ptrdiff_t>(sizeof(typename Operand::Block)) +
                                static_cast<ptrdiff_t>(steps) * Operand::kStepBytes;
  const WinogradPartBytes bytes = WinogradParts(kShape, g);
  int32_t* starts = static_cast<int32_t*>(p->workspace);
  int32_t* sums = starts + bytes.starts / 4;
  uint8_t* weights = reinterpret_cast<uint8_t*>(sums);
  int32_t* products = sums + bytes.weights / 4;
  uint8_t* lines = reinterpret_cast<uint8_t*>(products);
  uint8_t* panel = lines + bytes.products;

  const int32_t columns = WinogradTileColumns(kShape, g);
  const int32_t panel_tiles = WinogradPanelTiles(kShape, g);
  const int32_t last = (TileLineOf(kShape, g, p->row_end - 1) + 1) * columns;
  for (int32_t tile = TileLineOf(kShape, g, p->row_begin) * columns; tile < last;
       tile += panel_tiles) {
    const int32_t count = last - tile < panel_tiles ? last - tile : panel_tiles;
    TransformInputs<Operand>(p, tile, count, adds, pitch, lines, panel - kWinogradVector, panel);
    const uint8_t* at = header + header_bytes;
    for (int32_t channel = 0; channel < g.out_c; channel += kChannelBlock, at += block_bytes) {
      const auto* block = reinterpret_cast<const typename Operand::Block*>(at);
      const int32_t n = g.out_c - channel < kChannelBlock ? g.out_c - channel : kChannelBlock;
      const uint8_t* w = reinterpret_cast<const uint8_t*>(block + 1);
      Operand::StoreStarts(p, block, adds, starts);
      WinogradFrom from{starts, kChannelBlock, 0};
      for (int32_t step = 0; step < steps; step += kWinogradSteps) {
        const int32_t some = steps - step < kWinogradSteps ? steps - step : kWinogradSteps;
        TransformWeights<Operand>(w + static_cast<ptrdiff_t>(step) * Operand::kStepBytes, some,
                                  header, weights);
        multiply(panel + step * kWinogradGroup, pitch, weights, some, block, from, count, products);
        from = {products, kPoint, kChannelBlock};
      }
      ForEachStrip<Operand>(
          g, tile, tile + count, [&](const TileStrip& strip) __attribute__((always_inline)) {
            TransformProducts<Operand>(products + strip.at * kChannelBlock, strip.count, sums);
            ForEachLineOf<Operand>(
                p,
                strip, [&](int32_t sum, int32_t row, int32_t rows) __attribute__((always_inline)) {
                  finish(sums + sum * kChannelBlock, row, rows, channel, n);
                });
          });
    }
    ForEachStrip<Operand>(
        g, tile, tile + count, [&](const TileStrip& strip) __attribute__((always_inline)) {
          ForEachLineOf<Operand>(
              p, strip, [&](int32_t, int32_t row, int32_t rows) __attribute__((always_inline)) {
                AddResidual(p, row, rows);
              });
        });
  }
}

}  // namespace requant::conv
