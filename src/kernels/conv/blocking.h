#pragma once
// Sizes that the packing functions, the workspace and the vector kernels must agree on.
// Freestanding.
#include <stdint.h>

#include "kernels/geometry.h"

namespace requant::conv {

/// Output channels in one block of packed weights.
inline constexpr int32_t kChannelBlock = 8;
/// Rows whose accumulators are requantized in one go, whole register tiles: 60 x 8 int32.
inline constexpr int32_t kEpilogueRows = 60;
inline constexpr int32_t kEpilogueBytes = kEpilogueRows * kChannelBlock * 4;

/// Weights behind one output value.
inline int32_t Depth(const ConvGeometry& g) {
  return g.kernel_h * g.kernel_w * (g.in_c / g.groups);
}

/// Below this many rows a register tile beats passing over them (product.h).
inline constexpr int32_t kFewRows = 8;

/// Output rows whose inputs are gathered at once: about half of a first-level cache, so that the
/// block is still there when the next block of output channels comes; more for deep convolutions,
/// where every panel reads all weights anew, and for the same reason no rest of a few rows.
inline int32_t PanelRows(const ConvGeometry& g, int32_t bytes_per_row, int32_t bytes = 32768) {
  int32_t rows = bytes / bytes_per_row / kEpilogueRows * kEpilogueRows;
  if (rows < kEpilogueRows) rows = kEpilogueRows;
  if (rows > 6 * kEpilogueRows) rows = 6 * kEpilogueRows;
  if (g.panel_rows > 0) rows = g.panel_rows;
  const int32_t all = ConvRows(g);
  return all - rows < kFewRows ? all : rows;
}

/// int16 elements from one row to the next in the panel of the kernel on pairs. Rows a multiple of
/// 4096 bytes apart compete for the same few lines of a first-level cache: 59 instead of 96 GOPS.
inline int32_t PairsPitch(const ConvGeometry& g) {
  const int32_t even = (Depth(g) + 1) / 2 * 2;
  return even % 1024 == 0 ? even + 32 : even;
}

/// Pairs of k whose weights that kernel widens at once, to fit a first-level cache beside a tile's
/// inputs, and the room for them.
inline constexpr int32_t kWidenedPairs = 512;
inline int32_t WidenedBytes(const ConvGeometry& g) {
  const int32_t pairs = (Depth(g) + 1) / 2;
  return (pairs < kWidenedPairs ? pairs : kWidenedPairs) * kChannelBlock * 4;
}

/// A 1x1 window with stride 1 and no padding: output row m reads input row m, nothing to gather.
inline bool IsPointwise(const ConvGeometry& g) {
  return g.kernel_h == 1 && g.kernel_w == 1 && g.stride_h == 1 && g.stride_w == 1 &&
         g.pad_top == 0 && g.pad_left == 0 && g.out_h == g.in_h && g.out_w == g.in_w;
}

/// A window of one pixel that is always in the image; strides may leave others out.
inline bool IsOnePixel(const ConvGeometry& g) {
  return g.kernel_h == 1 && g.kernel_w == 1 && g.pad_top == 0 && g.pad_left == 0 &&
         (g.out_h - 1) * g.stride_h < g.in_h && (g.out_w - 1) * g.stride_w < g.in_w;
}

/// Columns, padding included, that the windows of one output row touch.
inline int32_t PaddedWidth(const ConvGeometry& g) {
  return (g.out_w - 1) * g.stride_w + (g.kernel_w - 1) * g.dilation_w + 1;
}

/// What the kernels that read lines in place can do; elements of a line stay far below 2^31.
inline bool LinesFit(const ConvGeometry& g) {
  return g.groups == 1 && g.dilation_h == 1 && g.dilation_w == 1 &&
         int64_t{PaddedWidth(g)} * g.in_c <= (1 << 24);
}
/// An image's first layer.
inline constexpr int32_t kShortRun = 32;
inline bool IsShortRun(const ConvGeometry& g) { return g.kernel_w * g.in_c <= kShortRun; }
/// What they are for, as measured: first layers, whose runs are short, and convolutions of few
/// output channels (at most `few`), for which a gathered window is used too little; but rows of
/// pixels must be long enough to share a load of weights.
inline bool LinesPay(const ConvGeometry& g, int32_t few) {
  return g.kernel_w > 1 && (IsShortRun(g) || (g.out_w >= 16 && g.out_c <= few));
}
/// GOPS of 3x3 layers, gathered and by lines, x86-64: pairs 65 and 85 for 16 channels (7 bits: 77),
/// 80 and 86 for 32 (7 bits: 103); bytes 130 and 224 for 16, 212 and 203 for 64 on 8 x 8, else 217
/// and 223, 239 and 231 for 128; floats 40 and 47 for 16, 46 and 49 for 32, 52 and 52 for 64.
/// On Zen 4, 7 bits: 77 and 88 for 16, 83 and 98 for 32, 103 and 104 for 64; pairs, by lines so
/// many times as fast: 1.06 to 1.14 for 32, 1.04 to 1.06 for 64, 0.95 to 1.03 for more.
inline constexpr int32_t kFewForPairs = 64, kFewForDot7 = 32, kFewForBytes = 64, kFewForF32 = 32;

/// Elements of one converted line of the kernels that read lines in place: the last step of a
/// window may reach three further.
inline int32_t LineElements(const ConvGeometry& g) {
  return (PaddedWidth(g) * g.in_c + 3 + 15) / 16 * 16;
}

/// k that one lane of the kernels on bytes takes at a time.
inline constexpr int32_t kDot7Group = 4;
inline constexpr int32_t kDot8Group = 4;

/// More rows where every panel unpacks all weights anew: then it is a second-level cache that they
/// have to fit.
inline int32_t NarrowPanelRows(const ConvGeometry& g) {
  const int32_t steps = (Depth(g) + kDot7Group - 1) / kDot7Group;
  return PanelRows(g, steps * kDot7Group + 4, 262144);
}

/// First bytes of the packed weights of vector_narrow.cpp; blocks follow: 8 biases, 8 sums of
/// weights, a NarrowSegment, then the weights of every step.
struct NarrowHeader {
  int32_t second;     ///< the operand in [0, 127]; 0: inputs, 1: weights
  int32_t nibbles;    ///< 0: weights are bytes, 1: two to a byte
  int32_t offset;     ///< what a weight is less its code
  int32_t input_add;  ///< to the inputs' codes
};
struct NarrowSegment {
  int32_t steps;  ///< of which the products fit int16
  /// If that is all of them: what may be added to every sum.
  int32_t least_base, most_base;
  int32_t reserved;
};
inline constexpr int32_t kNarrowSegment = kChannelBlock * 8;  ///< where
inline constexpr int32_t kNarrowBlockHeader = kNarrowSegment + 16;
/// Of the workspace, for BlockCodes (narrow_codes.h).
inline constexpr int32_t kNarrowCodesBytes = 464;

/// First bytes of packed q8 weights.
struct PackedQ8Header {
  int32_t wide;  ///< 0: weights minus zero point as int8, 1: as int16
  int32_t reserved[3];
};

}  // namespace requant::conv
