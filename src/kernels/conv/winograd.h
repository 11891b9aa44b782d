#pragma once
// What the packing functions and the kernels of vector_winograd_*.cpp must agree on. Freestanding.
#include "kernels/conv/blocking.h"
#include "kernels/import.h"

namespace requant::conv {

inline constexpr int32_t kWinogradTaps = 9;
/// Transformed this many bytes at a time, and multiplied so many.
inline constexpr int32_t kWinogradVector = 16, kWinogradGroup = 4;

/// A tile is so many outputs of a 3x3 window.
struct WinogradShape {
  int32_t out_h, out_w;
  int32_t operand;     ///< 1: bytes (few bits); 2: pairs of int16 (eight bits)
  int32_t scale;       ///< what its sums are, in outputs
  int32_t all_alike;   ///< how often point (1, 1) is in every sum
  int32_t most_tiles;  ///< in a panel: more share the transformed weights
  int32_t stride = 1;  ///< of windows; 2 for tiles of 2 x 2 outputs alone
  /// Inputs, and products of a channel.
  constexpr int32_t Lines() const { return stride * out_h + Shared(); }
  constexpr int32_t Columns() const { return stride * out_w + Shared(); }
  constexpr int32_t Points() const { return Lines() * Columns(); }
  /// Inputs of a direction that a tile has in common with the next.
  constexpr int32_t Shared() const { return 3 - stride; }
  /// Whether inputs that are all the same are not 0 in this line (column) of points.
  constexpr bool IsAlike(int32_t line) const { return line == 1 || (stride == 2 && line >= 3); }
  /// Points of weights: with strides the last two lines, and columns, have the same.
  constexpr int32_t WeightLines() const { return Lines() - (stride - 1); }
  constexpr int32_t WeightColumns() const { return Columns() - (stride - 1); }
  constexpr int32_t WeightPoints() const { return WeightLines() * WeightColumns(); }
  constexpr int32_t WeightPoint(int32_t line, int32_t column) const {
    const int32_t i = line < WeightLines() ? line : line - 1;
    return i * WeightColumns() + (column < WeightColumns() ? column : column - 1);
  }
  /// The point (1, 1), and what makes all outputs one more at it.
  constexpr int32_t SumOfAll() const { return Columns() + 1; }
  constexpr int32_t AllAlike() const { return scale / all_alike; }
  /// The largest output: sums are modulo 2^32, odd factors of the scale are inverted, and what is
  /// left, a power of two, is shifted out.
  constexpr int32_t MostOutput() const { return INT32_MAX / (scale & -scale); }
};
/// Pairs are slow enough that 32 tiles are as fast, with half of the memory.
inline constexpr WinogradShape kWinogradPairs{2, 2, 2, 4, 1, 32},
    kWinograd4x4Pairs{4, 4, 2, 576, 1, 32}, kWinogradNarrow{2, 2, 1, 4, 1, 64},
    kWinograd4x3Dot8{4, 3, 1, 144, 2, 64}, kWinogradStridedPairs{2, 2, 2, 1, 1, 32, 2},
    kWinogradStridedNarrow{2, 2, 1, 1, 1, 64, 2};

/// First bytes of the packed weights of few bits. Blocks follow, each for 8 output channels:
/// WinogradNarrowBlock, then for every four input channels the nine taps, two weights to a byte as
/// in pack_narrow.cpp.
struct WinogradNarrowHeader {
  int32_t input_lo;     ///< the least code of the input
  int32_t input_range;  ///< the largest less the least
  int32_t offset;       ///< what a weight is less its code
  int32_t dot8;         ///< 1: for machines that multiply whole bytes
};
template <int32_t kPoints>
struct WinogradNarrowBlock {
  int32_t bias[kChannelBlock], sum[kChannelBlock];
  int32_t point_sum[kPoints][kChannelBlock];  ///< of transformed weights
  int32_t segment;  ///< steps of four channels of which the products fit int16
  int32_t reserved[3];
};
/// Of weights of two bits: for every four input channels a byte for each column of taps follows,
/// [3][8][4], the first four output channels in the first half: the codes of its first and last tap
/// in the lowest four bits, that of the middle one above. What the first transform makes of a code
/// is looked up.
struct Winograd4x3Header {
  int32_t input_lo;
  int32_t reserved[3];
  /// Of the first and the last tap, g0 and g2: 6 g0, 2 (g0 + g2), g0 + 4 g2, 6 g2; of the other: 2
  /// g1.
  int8_t tables[5][16];
};
/// Blocks of eight bits: this, then for every two input channels the nine taps, a byte each.
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

/// Bytes from one transformed tile to the next. Those a multiple of 256 apart would compete for few
/// lines of a first-level cache.
inline int32_t WinogradPitch(const WinogradShape& s, const ConvGeometry& g) {
  const int32_t bytes = g.in_c * s.operand;
  return bytes % 256 == 0 ? bytes + 64 : bytes;
}
/// Steps of four bytes whose weights are transformed at a time, and the bytes of a point, likewise.
inline constexpr int32_t kWinogradSteps = 32;
inline constexpr int32_t kWinogradWeightBytes =
    kWinogradSteps * kWinogradGroup * kChannelBlock + 64;
/// All transformed weights of few bits, and bounds.
inline constexpr int32_t kWinogradSegmentScratch =
    64 + kWinogradNarrow.WeightPoints() * kWinogradWeightBytes;
/// Bytes between the products of points.
constexpr int32_t WinogradProductBytes(const WinogradShape& s) {
  return s.most_tiles * kChannelBlock * 4 + 64;
}

/// Tiles that are transformed at once: half of a small second-level cache (all of a large one are
/// no faster), and of a first-level one the products of a block; panels of about equal size, whole
/// register tiles.
inline int32_t WinogradPanelTiles(const WinogradShape& s, const ConvGeometry& g) {
  constexpr int32_t kLeast = 16, kBytes = 262144;
  int32_t most = kBytes / (s.Points() * WinogradPitch(s, g));
  most = most < kLeast ? kLeast : most > s.most_tiles ? s.most_tiles : most;
  const int32_t all = WinogradTiles(s, g);
  const int32_t panels = (all + most - 1) / most;
  return (all + 4 * panels - 1) / (4 * panels) * 4;
}

/// Parts of the workspace, in bytes, in this order. Sums lie where transformed weights were, the
/// lines of a strip, of all its columns, and a pixel of padding where products will be.
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

/// Of a block's packed steps of weights, of tiles with that stride: how many may be added up in
/// int16, of those of each part that is transformed, whatever codes the inputs have. `scratch`:
/// kWinogradSegmentScratch bytes.
RQ_LOW_BITS_KERNEL(rq_conv_winograd_segment)
int32_t rq_conv_winograd_segment(const requant::conv::WinogradNarrowHeader* header, int32_t stride,
                                 const uint8_t* packed, int32_t steps, uint8_t* scratch);
