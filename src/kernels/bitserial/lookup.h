#pragma once
// What the packing, the workspace and the vector kernel of convolution by table lookup must agree
// on. Freestanding; the arithmetic is described in vector_lookup.cpp.
#include <stdint.h>

#include "kernels/conv/blocking.h"
#include "kernels/geometry.h"

namespace requant::bitserial {

/// Input channels whose four tables of 16 bytes lie together.
inline constexpr int32_t kSlice = 16;
inline constexpr int32_t kSliceBytes = 64;
/// Codes of a convolution's input span at most this much: the sums of four, four times, fit a byte.
inline constexpr int32_t kMostRange = 15;
/// Slices under the taps of a window that are summed in 16 bits: 256 * 16 * 15 < 65536.
inline constexpr int32_t kMostTaps = 256;
/// As many of them as tables fit the first caches of most machines.
inline constexpr int32_t kSegmentSlices = 72;
/// Of the tables of a band of lines, and rows of it whose accumulators are kept.
inline constexpr int32_t kTableBytes = 192 * 1024;
inline constexpr int32_t kBandRows = 512;

/// First bytes of the packed weights: w = offset + scale * u, u of `planes` bits.
struct LookupHeader {
  int32_t offset, scale;
  int32_t planes;                 ///< 1: a block is 16 channels, 2: 8 channels of two planes
  int32_t input_lo, input_range;  ///< codes of the input: [input_lo, input_lo + input_range]
  int32_t reserved[3];
  uint8_t patterns[6][16];  ///< kTablePatterns: engines make a vector constant anew at every use
};

/// From eight codes to the pair sums (0, a, b, a + b, 0, c, d, c + d) of each four: which to take
/// and which to keep, twice; then from pair sums the second terms of a table, of the first four
/// codes and of the next.
inline constexpr uint8_t kTablePatterns[6][16] = {
    {0, 0, 0, 0, 2, 2, 2, 2, 4, 4, 4, 4, 6, 6, 6, 6},
    {0, 255, 0, 255, 0, 255, 0, 255, 0, 255, 0, 255, 0, 255, 0, 255},
    {1, 1, 1, 1, 3, 3, 3, 3, 5, 5, 5, 5, 7, 7, 7, 7},
    {0, 0, 255, 255, 0, 0, 255, 255, 0, 0, 255, 255, 0, 0, 255, 255},
    {4, 4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7},
    {12, 12, 12, 12, 13, 13, 13, 13, 14, 14, 14, 14, 15, 15, 15, 15},
};

inline int32_t BlockChannels(int32_t planes) { return planes == 1 ? 16 : 8; }

struct LookupShape {
  ConvGeometry g;       ///< a pointwise convolution's pixels cut into lines of a handy length
  int32_t pixels;       ///< of the input, all images
  int32_t slices;       ///< of the channels of one group
  int32_t taps;         ///< of a window
  int32_t segment;      ///< slices that are summed in 16 bits
  int32_t phases;       ///< columns are kept by x mod stride: a tile's windows are neighbours
  int32_t phase_width;  ///< columns of one phase
  int32_t pitch;        ///< bytes between the slices of a line of tables
  int32_t line_bytes;
  int32_t band;  ///< output lines whose tables are there at a time
  int32_t ring;  ///< input lines that they touch
};

/// Filled in place, in the workspace: the kernel has no memory of its own. 32 bits suffice for what
/// LookupSupports lets through.
inline void SetLookupShape(const ConvGeometry& geometry, LookupShape& s) {
  s.g = geometry;
  ConvGeometry& g = s.g;
  s.pixels = g.batch * g.in_h * g.in_w;
  s.slices = (g.in_c / g.groups + kSlice - 1) / kSlice;
  s.taps = g.kernel_h * g.kernel_w;
  s.segment = kSegmentSlices / s.taps < 1 ? 1 : kSegmentSlices / s.taps;
  if (conv::IsPointwise(geometry)) {
    int32_t width = kTableBytes / kSliceBytes / s.slices / 4 * 4;
    width = width < 4 ? 4 : width > 64 ? 64 : width;
    if (width > s.pixels) width = s.pixels;
    g.batch = 1;
    g.in_w = g.out_w = width;
    g.in_h = g.out_h = (s.pixels + width - 1) / width;
  }
  s.phases = g.kernel_w == 1 ? 1 : g.stride_w;
  s.phase_width = g.out_w + (g.kernel_w - 1) * g.dilation_w / g.stride_w;
  s.pitch = s.phases * s.phase_width * kSliceBytes;
  s.line_bytes = s.pitch * s.slices;
  const int32_t span = (g.kernel_h - 1) * g.dilation_h + 1;
  const int32_t lines = kTableBytes / s.line_bytes;
  s.band = lines > span ? (lines - span) / g.stride_h + 1 : 1;
  if (s.band > kBandRows / g.out_w) s.band = kBandRows / g.out_w;
  if (s.band > g.out_h) s.band = g.out_h;
  if (s.band < 1) s.band = 1;
  s.ring = (s.band - 1) * g.stride_h + span;
}

/// Bytes of the parts of the workspace, in their order; whole vectors.
struct LookupParts {
  int32_t shape;     ///< the LookupShape
  int32_t tags;      ///< which line a slot of the ring holds, int64
  int32_t offsets;   ///< int32 [band][taps]: from the first table to that of column 0
  int32_t sums;      ///< int32 [ring][phases][phase_width]: sums of codes
  int32_t row_sums;  ///< int32 [band][out_w]: the same under a window
  int32_t strips;    ///< int32 [2][band][out_w][8]: accumulators of even and of odd lanes
  int32_t indices;   ///< of a block of weights, a byte each
};

inline LookupParts LookupPartsOf(const LookupShape& s) {
  const auto align = [](int32_t bytes) { return (bytes + 15) & ~15; };
  const int32_t rows = s.band * s.g.out_w;
  return {align(sizeof(LookupShape)),
          align(s.ring * 8),
          align(s.band * s.taps * 4),
          align(s.ring * s.phases * s.phase_width * 4),
          align(rows * 4),
          rows * 64,
          s.taps * s.slices * kSliceBytes};
}

}  // namespace requant::bitserial
