#pragma once
// What the packing function and the kernels of vector_winograd_narrow.cpp and
// vector_winograd_pairs.cpp must agree on. Freestanding.
#include "kernels/conv/blocking.h"

namespace requant::conv {

/// A tile is 2 x 2 outputs of a 3 x 3 window: 4 x 4 inputs, and as many products of a channel.
inline constexpr int32_t kWinogradOutputs = 4, kWinogradPoints = 16, kWinogradTaps = 9;
/// Operands are bytes (few bits), or pairs of int16 (eight bits): of this many bytes, transformed
/// sixteen bytes at a time, and multiplied four at a time.
inline constexpr int32_t kWinogradBytes = 1, kWinogradPairs = 2;
inline constexpr int32_t kWinogradVector = 16, kWinogradGroup = 4;

/// First bytes of the packed weights of few bits. Blocks follow, each for 8 output channels:
/// WinogradNarrowBlock, then for every four input channels the nine taps, two weights to a byte as
/// in pack_narrow.cpp.
struct WinogradNarrowHeader {
  int32_t input_lo;     ///< the least code of the input
  int32_t input_range;  ///< the largest less the least: at most 31
  int32_t offset;       ///< what a weight is less its code
  int32_t dot8;         ///< 1: for machines that multiply whole bytes
};
struct WinogradNarrowBlock {
  int32_t bias[kChannelBlock], sum[kChannelBlock];
  /// What the transformed inputs' being larger than they are adds to four times an output, less.
  int32_t excess[kWinogradOutputs][kChannelBlock];
  int32_t segment;  ///< steps of four channels of which the products fit int16
  int32_t reserved[3];
};
/// Blocks of eight bits: this, then for every two input channels the nine taps, a byte each.
struct WinogradPairsBlock {
  int32_t bias[kChannelBlock];
};

inline int32_t WinogradTileColumns(const ConvGeometry& g) { return (g.out_w + 1) / 2; }
inline int32_t WinogradTileLines(const ConvGeometry& g) { return (g.out_h + 1) / 2; }
inline int32_t WinogradTiles(const ConvGeometry& g) {
  return g.batch * WinogradTileLines(g) * WinogradTileColumns(g);
}

/// Bytes from one transformed tile to the next. Those a multiple of 256 apart would compete for few
/// lines of a first-level cache.
inline int32_t WinogradPitch(const ConvGeometry& g, int32_t operand) {
  const int32_t bytes = g.in_c * operand;
  return bytes % 256 == 0 ? bytes + 64 : bytes;
}
/// Steps of four bytes whose weights are transformed at a time, and the bytes of a point, likewise.
inline constexpr int32_t kWinogradSteps = 32;
inline constexpr int32_t kWinogradWeightBytes =
    kWinogradSteps * kWinogradGroup * kChannelBlock + 64;

/// The most tiles in a panel, and the bytes between their products. More share the transformed
/// weights, which pairs are slow enough not to need: 32 are as fast, and half of the memory.
constexpr int32_t WinogradMostTiles(int32_t operand) { return operand == kWinogradPairs ? 32 : 64; }
constexpr int32_t WinogradProductBytes(int32_t operand) {
  return WinogradMostTiles(operand) * kChannelBlock * 4 + 64;
}

/// Tiles that are transformed at once: half of a small second-level cache (all of a large one are
/// no faster), and of a first-level one the products of a block; panels of about equal size, whole
/// register tiles.
inline int32_t WinogradPanelTiles(const ConvGeometry& g, int32_t operand) {
  constexpr int32_t kLeast = 16, kBytes = 262144;
  const int32_t largest = WinogradMostTiles(operand);
  int32_t most = kBytes / (kWinogradPoints * WinogradPitch(g, operand));
  most = most < kLeast ? kLeast : most > largest ? largest : most;
  const int32_t all = WinogradTiles(g);
  const int32_t panels = (all + most - 1) / most;
  return (all + 4 * panels - 1) / (4 * panels) * 4;
}

/// Parts of the workspace, in bytes, in this order. Sums lie where transformed weights were, the
/// four lines of a strip, of two columns a tile and two more, and a pixel of padding where products
/// will be.
struct WinogradPartBytes {
  int64_t totals, weights, products, panel;
};
static_assert(kWinogradOutputs * WinogradMostTiles(kWinogradBytes) * kChannelBlock * 4 <=
              kWinogradPoints * kWinogradWeightBytes);
inline WinogradPartBytes WinogradParts(const ConvGeometry& g, int32_t operand) {
  return {(kWinogradOutputs + 1) * kChannelBlock * 4,  // and zeros
          kWinogradPoints * kWinogradWeightBytes, kWinogradPoints * WinogradProductBytes(operand),
          int64_t{kWinogradPoints} * WinogradPanelTiles(g, operand) * WinogradPitch(g, operand)};
}

}  // namespace requant::conv
