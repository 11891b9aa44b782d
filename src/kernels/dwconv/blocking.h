#pragma once
// Sizes that the packing functions, the workspaces and the vector kernels share. Freestanding.
#include <stdint.h>

#include "kernels/geometry.h"

namespace requant::dwconv {

/// Channels in one block of packed weights: one vector of 32-bit lanes.
inline constexpr int32_t kQuad = 4;
/// int32 elements of the accumulator strip, which therefore has kStripElements / channel group
/// pixels.
inline constexpr int32_t kStripElements = 1024;
inline constexpr int32_t kMaxGroup = 64;

/// Blocks of `rows` input rows under a kernel whose first row is the phase-th of a block; the 8-bit
/// kernels multiply a block at a time.
inline int32_t RowBlocks(int32_t rows, int32_t kernel_h, int32_t phase) {
  return (phase + kernel_h + rows - 1) / rows;
}

/// Pairs of input rows under a kernel that begins on the first (even) or second (odd) row of a
/// pair.
inline int32_t EvenPairs(int32_t kernel_h) { return RowBlocks(2, kernel_h, 0); }
inline int32_t OddPairs(int32_t kernel_h) { return RowBlocks(2, kernel_h, 1); }

/// int16 elements of a quad's weights for one parity. A quad is its 32-bit biases, then both
/// parities.
inline int32_t PairElements(int32_t pairs, int32_t kernel_w) {
  return pairs * kernel_w * kQuad * 2;
}
inline int32_t Q8QuadBytes(int32_t kernel_h, int32_t kernel_w) {
  return kQuad * 4 + 2 * PairElements(EvenPairs(kernel_h) + OddPairs(kernel_h), kernel_w);
}

/// Columns, padding included, under the windows of one output line.
inline int32_t PaddedWidth(const ConvGeometry& g) {
  return (g.out_w - 1) * g.stride_w + (g.kernel_w - 1) * g.dilation_w + 1;
}

/// Channels that the 8-bit kernels compute together, a multiple of 8: as many as keep the converted
/// rows under one output line in a first-level cache, `slots` times four bytes for each channel and
/// column.
inline int32_t ChannelGroup(const ConvGeometry& g, int32_t slots) {
  const int32_t all = (g.out_c + 7) / 8 * 8;
  const int64_t bytes_per_channel = int64_t{PaddedWidth(g)} * 4 * slots;
  int32_t group = static_cast<int32_t>(24576 / bytes_per_channel / 16 * 16);
  if (group < 16) group = 16;
  if (group > kMaxGroup) group = kMaxGroup;
  return group < all ? group : all;
}

/// Blocks of four rows under a kernel; the kernel on whole bytes multiplies four rows at a time.
inline int32_t Quartets(int32_t kernel_h, int32_t phase) { return RowBlocks(4, kernel_h, phase); }
/// The offset in bytes of one phase among the weights of eight channels; phase 4 gives their size.
inline int32_t PhaseOffset(int32_t kernel_h, int32_t kernel_w, int32_t phase) {
  int32_t quartets = 0;
  for (int32_t i = 0; i < phase; ++i) quartets += Quartets(kernel_h, i);
  return quartets * kernel_w * 32;
}
/// Bytes in front of the weights of a block of eight channels: eight biases, eight sums of weights,
/// and eight middles.
inline constexpr int32_t kDot8HeaderBytes = 96;
inline int32_t Dot8BlockBytes(int32_t kernel_h, int32_t kernel_w) {
  return kDot8HeaderBytes + PhaseOffset(kernel_h, kernel_w, 4);
}

/// The first bytes of the packed weights of vector_narrow.cpp. For every eight channels follow 8
/// biases, 8 sums of weights, and the bytes of the pairs of both parities.
struct NarrowHeader {
  int32_t input_add;  ///< addend of the inputs' codes
  int32_t reserved[3];
};
inline int32_t NarrowOctetBytes(int32_t kernel_h, int32_t kernel_w) {
  return 64 + (EvenPairs(kernel_h) + OddPairs(kernel_h)) * kernel_w * 16;
}

}  // namespace requant::dwconv
