#pragma once
// Sizes that the packing functions, the workspaces and the vector kernels share. Freestanding.
#include <stdint.h>

#include "kernels/geometry.h"

namespace requant::conv {

/// Output channels in one block of packed weights.
inline constexpr int32_t kChannelBlock = 8;
/// Rows whose accumulators are requantized at a time, in whole register tiles: 60 x 8 int32.
inline constexpr int32_t kEpilogueRows = 60;
inline constexpr int32_t kEpilogueBytes = kEpilogueRows * kChannelBlock * 4;

/// Weights under the window of one output value.
inline int32_t Depth(const ConvGeometry& g) {
  return g.kernel_h * g.kernel_w * (g.in_c / g.groups);
}

/// Below this many rows a register tile is faster than passing over them (product.h).
inline constexpr int32_t kFewRows = 8;

/// Output rows whose inputs are gathered at a time. They fill about half of a first-level cache, so
/// that the panel is still cached when the next block of output channels reads it. Deep
/// convolutions take more rows, because every panel reads all weights anew; for the same reason no
/// panel of fewer than kFewRows rows is left over.
inline int32_t PanelRows(const ConvGeometry& g, int32_t bytes_per_row, int32_t bytes = 32768) {
  int32_t rows = bytes / bytes_per_row / kEpilogueRows * kEpilogueRows;
  if (rows < kEpilogueRows) rows = kEpilogueRows;
  if (rows > 6 * kEpilogueRows) rows = 6 * kEpilogueRows;
  if (g.panel_rows > 0) rows = g.panel_rows;
  const int32_t all = ConvRows(g);
  return all - rows < kFewRows ? all : rows;
}

/// int16 elements from one row to the next in the panel of the kernel on pairs. Rows a multiple of
/// 4096 bytes apart would compete for the same few lines of a first-level cache (59 instead of 96
/// GOPS).
inline int32_t PairsPitch(const ConvGeometry& g) {
  const int32_t even = (Depth(g) + 1) / 2 * 2;
  return even % 1024 == 0 ? even + 32 : even;
}

/// Pairs of k whose weights the kernel on pairs widens at a time, so that they fit a first-level
/// cache beside a tile's inputs, and the bytes that they take.
inline constexpr int32_t kWidenedPairs = 512;
inline int32_t WidenedBytes(const ConvGeometry& g) {
  const int32_t pairs = (Depth(g) + 1) / 2;
  return (pairs < kWidenedPairs ? pairs : kWidenedPairs) * kChannelBlock * 4;
}

/// Whether output row m reads input row m and nothing needs gathering: a 1x1 window, stride 1, no
/// padding.
inline bool IsPointwise(const ConvGeometry& g) {
  return g.kernel_h == 1 && g.kernel_w == 1 && g.stride_h == 1 && g.stride_w == 1 &&
         g.pad_top == 0 && g.pad_left == 0 && g.out_h == g.in_h && g.out_w == g.in_w;
}

/// Whether windows are one pixel that is always inside the image; strides may skip other pixels.
inline bool IsOnePixel(const ConvGeometry& g) {
  return g.kernel_h == 1 && g.kernel_w == 1 && g.pad_top == 0 && g.pad_left == 0 &&
         (g.out_h - 1) * g.stride_h < g.in_h && (g.out_w - 1) * g.stride_w < g.in_w;
}

/// Columns, padding included, under the windows of one output line.
inline int32_t PaddedWidth(const ConvGeometry& g) {
  return (g.out_w - 1) * g.stride_w + (g.kernel_w - 1) * g.dilation_w + 1;
}

/// Whether the kernels that read lines in place support this geometry; elements of a line stay far
/// below 2^31.
inline bool LinesFit(const ConvGeometry& g) {
  return g.groups == 1 && g.dilation_h == 1 && g.dilation_w == 1 &&
         int64_t{PaddedWidth(g)} * g.in_c <= (1 << 24);
}
/// The longest run of values under one line of a window that counts as short, as in an image's
/// first layer.
inline constexpr int32_t kShortRun = 32;
inline bool IsShortRun(const ConvGeometry& g) { return g.kernel_w * g.in_c <= kShortRun; }
/// Whether reading lines in place is faster, as measured: for first layers, whose runs are short,
/// and for convolutions of few output channels (at most `few`), which use a gathered window too
/// rarely. Output lines must be long enough to share each load of weights.
inline bool LinesArePreferred(const ConvGeometry& g, int32_t few) {
  return g.kernel_w > 1 && (IsShortRun(g) || (g.out_w >= 16 && g.out_c <= few));
}
/// The limits `few` of the kernels on pairs, 7 bits, bytes and floats. GOPS of 3x3 layers (x86-64):
///
///   channels      pairs              bytes              floats
///                 gathered  lines    gathered  lines    gathered  lines
///    16               65      85        130     224         40      47
///    32               80      86                            46      49
///    64                                 217     223         52      52
///    64, 8 x 8                          212     203
///   128                                 239     231
///
/// 7 bits, gathered: 77 for 16 and 103 for 32 channels. On Zen 4, 7 bits gathered and by lines: 77
/// and 88 for 16, 83 and 98 for 32, 103 and 104 for 64. Pairs by lines are 1.06 to 1.14 times as
/// fast as gathered for 32 channels, 1.04 to 1.06 for 64, 0.95 to 1.03 for more.
inline constexpr int32_t kFewForPairs = 64, kFewForDot7 = 32, kFewForBytes = 64, kFewForF32 = 32;

/// Elements of one converted line of the kernels that read lines in place. The last step of a
/// window may read three elements beyond the line.
inline int32_t LineElements(const ConvGeometry& g) {
  return (PaddedWidth(g) * g.in_c + 3 + 15) / 16 * 16;
}

/// Values of k that one lane of the kernels on bytes takes at a time.
inline constexpr int32_t kDot7Group = 4;
inline constexpr int32_t kDot8Group = 4;

/// Rows of a panel where every panel unpacks all weights anew: they fill half of a second-level
/// cache instead of a first-level one.
inline int32_t NarrowPanelRows(const ConvGeometry& g) {
  const int32_t steps = (Depth(g) + kDot7Group - 1) / kDot7Group;
  return PanelRows(g, steps * kDot7Group + 4, 262144);
}

/// The first bytes of the packed weights of vector_narrow.cpp. Blocks follow: 8 biases, 8 sums of
/// weights, a NarrowSegment, then the weights of every step.
struct NarrowHeader {
  int32_t second;     ///< which operand is in [0, 127]: 0: inputs, 1: weights
  int32_t nibbles;    ///< 0: weights are bytes, 1: two to a byte
  int32_t offset;     ///< weight less its code
  int32_t input_add;  ///< addend of the inputs' codes
};
struct NarrowSegment {
  int32_t steps;  ///< steps whose products together fit int16
  /// The range of initial sums with which all products together fit int16, if `steps` covers all.
  int32_t least_base, most_base;
  int32_t reserved;
};
/// offset of the NarrowSegment in a block
inline constexpr int32_t kNarrowSegment = kChannelBlock * 8;
inline constexpr int32_t kNarrowBlockHeader = kNarrowSegment + 16;
/// Bytes of the workspace for BlockCodes (narrow_codes.h).
inline constexpr int32_t kNarrowCodesBytes = 464;

/// The first bytes of packed q8 weights.
struct PackedQ8Header {
  int32_t wide;  ///< 0: weights minus zero point as int8, 1: as int16
  int32_t reserved[3];
};

}  // namespace requant::conv
