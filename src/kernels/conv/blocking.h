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
/// The layers for which a kernel that reads lines in place is preferred to one that gathers
/// windows.
struct LinesLimits {
  /// Most output channels of a layer with long runs: a gathered window that many channels read has
  /// paid for its gathering.
  int32_t few;
  /// Most output channels, for each column of the output, of a layer with short runs. Every line
  /// reads all weights, which few columns share badly.
  int32_t per_column;
  /// Shorter output lines count as long ones if they are whole register tiles of so many pixels; 0:
  /// they do not.
  int32_t tile;
  /// Includes windows of one pixel with a stride, if their runs are short.
  bool one_pixel;
};
/// Output lines of so many pixels are long enough to share each load of weights.
inline constexpr int32_t kLongLine = 16;
/// Whether the layer is like an image's first one, of short runs, and within the limits.
inline bool ShortRunsArePreferred(const ConvGeometry& g, const LinesLimits& limits) {
  return IsShortRun(g) && g.kernel_w > 1 && g.out_c <= int64_t{limits.per_column} * g.out_w;
}
/// Whether the layer is within the limits.
bool LinesArePreferred(const ConvGeometry& g, const LinesLimits& limits);
/// The limits of the kernels on pairs, on bytes (7 bits, too) and on floats. How many times as fast
/// lines are as gathered windows, median and range over random layers on a Xeon with AVX-VNNI
/// (docs/notes/2026-11-27-lines-in-place.md):
///
///   layers                      pairs               bytes               floats
///   short runs, within limit    1.57 (0.97-3.81)    2.05 (1.16-6.10)    1.25 (0.93-2.54)
///   short runs, more channels   0.85 (0.45-1.07)    0.80 (0.27-1.14)    0.91 (0.76-1.03)
///   long runs, up to `few`
///     16 pixels or more         1.05 (0.96-1.36)    1.13 (1.01-1.65)    1.08 (0.99-1.50)
///     4, 8 or 12 pixels         1.02 (0.85-1.20)    1.02 (0.72-1.46)    1.05 (0.98-1.35)
///     7 pixels, one pixel       0.81 (0.51-1.11)    0.83 (0.42-1.20)    0.77 (0.33-1.06)
///   long runs, more channels    0.95 (0.91-0.98)    1.01 (0.95-1.07)    1.01 (0.94-1.12)
///   one pixel, short runs       1.21 (1.00-2.35)    1.01 (0.95-1.73)    1.10 (1.02-1.22)
///   one pixel, long runs        0.92 (0.69-1.06)    0.91 (0.65-0.97)    0.99 (0.71-1.05)
///
/// The last three rows are of output lines of 16 pixels or more.
inline constexpr LinesLimits kPairsLines{.few = 64, .per_column = 4, .tile = 0, .one_pixel = true},
    kBytesLines{.few = 64, .per_column = 4, .tile = 0, .one_pixel = false},
    kF32Lines{.few = 64, .per_column = 8, .tile = 4, .one_pixel = true};

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
