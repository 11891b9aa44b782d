#pragma once
// Constants and layouts that the packing functions and the kernels of vector_winograd_*.cpp share.
// Freestanding.
#include "kernels/conv/blocking.h"
#include "kernels/import.h"

namespace requant::conv {

inline constexpr int32_t kWinogradTaps = 9;
/// Bytes that are transformed at a time, and bytes that one lane multiplies at a time.
inline constexpr int32_t kWinogradVector = 16, kWinogradGroup = 4;

/// The shape of a tile: out_h x out_w outputs of a 3x3 window.
struct WinogradShape {
  int32_t out_h, out_w;
  int32_t operand;     ///< 1: bytes (few bits); 2: int16 pairs (eight bits)
  int32_t scale;       ///< sums are this many times the outputs
  int32_t all_alike;   ///< how often point (1, 1) is in every sum
  int32_t most_tiles;  ///< tiles in a panel, which share the transformed weights
  int32_t stride = 1;  ///< stride of windows; 2 only for tiles of 2 x 2 outputs
  /// A tile has Lines() x Columns() inputs, and as many products for each channel.
  constexpr int32_t Lines() const { return stride * out_h + Shared(); }
  constexpr int32_t Columns() const { return stride * out_w + Shared(); }
  constexpr int32_t Points() const { return Lines() * Columns(); }
  /// Lines or columns of inputs that a tile shares with the next one.
  constexpr int32_t Shared() const { return 3 - stride; }
  /// Whether this line (column) of points keeps a constant input nonzero.
  constexpr bool IsAlike(int32_t line) const { return line == 1 || (stride == 2 && line >= 3); }
  /// Points of weights. With strides the last two lines, and the last two columns, are equal.
  constexpr int32_t WeightLines() const { return Lines() - (stride - 1); }
  constexpr int32_t WeightColumns() const { return Columns() - (stride - 1); }
  constexpr int32_t WeightPoints() const { return WeightLines() * WeightColumns(); }
  constexpr int32_t WeightPoint(int32_t line, int32_t column) const {
    const int32_t i = line < WeightLines() ? line : line - 1;
    return i * WeightColumns() + (column < WeightColumns() ? column : column - 1);
  }
  /// The index of point (1, 1), and the addend there that adds 1 to all outputs.
  constexpr int32_t SumOfAll() const { return Columns() + 1; }
  constexpr int32_t AllAlike() const { return scale / all_alike; }
  /// The largest output. Sums are modulo 2^32; the division by `scale` multiplies by the inverse of
  /// its odd factor and shifts out the remaining power of two.
  constexpr int32_t MostOutput() const { return INT32_MAX / (scale & -scale); }
};
/// The tiles that have kernels. Pairs are slow enough that 32 tiles are as fast as 64, with half of
/// the memory.
inline constexpr WinogradShape kWinogradPairs{2, 2, 2, 4, 1, 32},
    kWinograd4x4Pairs{4, 4, 2, 576, 1, 32}, kWinogradNarrow{2, 2, 1, 4, 1, 64},
    kWinograd4x3Dot8{4, 3, 1, 144, 2, 64}, kWinogradStridedPairs{2, 2, 2, 1, 1, 32, 2},
    kWinogradStridedNarrow{2, 2, 1, 1, 1, 64, 2};

/// The first bytes of packed few-bit weights. Blocks for 8 output channels follow:
/// WinogradNarrowBlock, then for every four input channels the nine taps, two weights to a byte as
/// in pack_narrow.cpp.
struct WinogradNarrowHeader {
  int32_t input_lo;     ///< the least code of the input
  int32_t input_range;  ///< the greatest code less the least
  int32_t offset;       ///< weight less its code
  int32_t dot8;         ///< 1: for machines that multiply whole bytes exactly
};
template <int32_t kPoints>
struct WinogradNarrowBlock {
  int32_t bias[kChannelBlock], sum[kChannelBlock];
  int32_t point_sum[kPoints][kChannelBlock];  ///< sums of transformed weights
  int32_t segment;  ///< steps of four channels whose products together fit int16
  int32_t reserved[3];
};
/// The first bytes of packed two-bit weights. For every four input channels and each column of taps
/// follow bytes [3][8][4], the first four output channels in the first half. A byte is a column's
/// codes: bits 1..0 and 3..2 the first and the last tap, above them the middle one. The kernel
/// looks up the first transform of a code.
struct Winograd4x3Header {
  int32_t input_lo;
  int32_t reserved[3];
  /// Tables of the first transform. Of the outer taps g0 and g2: 6 g0, 2 (g0 + g2), g0 + 4 g2, 6
  /// g2; of the middle one: 2 g1.
  int8_t tables[5][16];
};
/// The head of a block of eight bits; for every two input channels the nine taps follow, a byte
/// each.
struct WinogradPairsBlock {
  int32_t bias[kChannelBlock];
};

inline int32_t WinogradTileColumns(const WinogradShape& s, const ConvGeometry& g) {
  return (g.out_w + s.out_w - 1) / s.out_w;
}
inline int32_t WinogradTileLines(const WinogradShape& s, const ConvGeometry& g) {
  return (g.out_h + s.out_h - 1) / s.out_h;
}
inline int32_t WinogradTiles(const WinogradShape& s, const ConvGeometry& g) {
  return g.batch * WinogradTileLines(s, g) * WinogradTileColumns(s, g);
}

/// Bytes from one transformed tile to the next. Tiles a multiple of 256 bytes apart would compete
/// for few lines of a first-level cache.
inline int32_t WinogradPitch(const WinogradShape& s, const ConvGeometry& g) {
  const int32_t bytes = g.in_c * s.operand;
  return bytes % 256 == 0 ? bytes + 64 : bytes;
}
/// Steps of four bytes whose weights are transformed at a time, and the bytes between the weights
/// of two points, chosen against the same competition.
inline constexpr int32_t kWinogradSteps = 32;
inline constexpr int32_t kWinogradWeightBytes =
    kWinogradSteps * kWinogradGroup * kChannelBlock + 64;
/// Scratch memory for all transformed few-bit weights and their bounds.
inline constexpr int32_t kWinogradSegmentScratch =
    64 + kWinogradNarrow.WeightPoints() * kWinogradWeightBytes;
/// Bytes between the products of two points.
constexpr int32_t WinogradProductBytes(const WinogradShape& s) {
  return s.most_tiles * kChannelBlock * 4 + 64;
}

/// Tiles that are transformed at a time. They fill half of a small second-level cache (filling a
/// large one is no faster), and the products of a block fill half of a first-level one. Panels are
/// about equal in size and are whole register tiles.
inline int32_t WinogradPanelTiles(const WinogradShape& s, const ConvGeometry& g) {
  constexpr int32_t kLeast = 16, kBytes = 262144;
  int32_t most = kBytes / (s.Points() * WinogradPitch(s, g));
  most = most < kLeast ? kLeast : most > s.most_tiles ? s.most_tiles : most;
  const int32_t all = WinogradTiles(s, g);
  const int32_t panels = (all + most - 1) / most;
  return (all + 4 * panels - 1) / (4 * panels) * 4;
}

/// Bytes of the parts of the workspace, in this order. Sums later overwrite the transformed
/// weights. The lines of a strip, with all its columns and a pixel of padding, precede the products
/// in their memory.
struct WinogradPartBytes {
  int64_t starts, weights, products, panel;
};
constexpr bool WinogradPartsHold(const WinogradShape& s) {
  const int32_t sums = s.out_h * s.out_w * s.most_tiles * kChannelBlock * 4;
  const int32_t lines =
      s.Lines() * (s.stride * s.out_w * s.most_tiles + s.Shared()) * kWinogradVector;
  return sums <= s.WeightPoints() * kWinogradWeightBytes &&
         lines <= s.Points() * WinogradProductBytes(s);
}
static_assert(WinogradPartsHold(kWinogradPairs) && WinogradPartsHold(kWinograd4x4Pairs) &&
              WinogradPartsHold(kWinogradNarrow) && WinogradPartsHold(kWinograd4x3Dot8) &&
              WinogradPartsHold(kWinogradStridedPairs) &&
              WinogradPartsHold(kWinogradStridedNarrow));
inline WinogradPartBytes WinogradParts(const WinogradShape& s, const ConvGeometry& g) {
  const int32_t points = s.Points();
  return {points * kChannelBlock * 4, s.WeightPoints() * kWinogradWeightBytes,
          points * WinogradProductBytes(s),
          int64_t{points} * WinogradPanelTiles(s, g) * WinogradPitch(s, g)};
}

}  // namespace requant::conv

/// How many of a block's packed steps can be added up in int16, whatever codes the inputs have, in
/// each part of the weights that is transformed at a time. `scratch` has kWinogradSegmentScratch
/// bytes.
RQ_LOW_BITS_KERNEL(rq_conv_winograd_segment)
int32_t rq_conv_winograd_segment(const requant::conv::WinogradNarrowHeader* header, int32_t stride,
                                 const uint8_t* packed, int32_t steps, uint8_t* scratch);
