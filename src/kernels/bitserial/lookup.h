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
/// Slices under the taps of a window that are summed in 16 bits, those of the second of two planes
/// twice: 256 * 16 * 15 < 65536.
inline constexpr int32_t kMostTaps = 256;
/// As many of them as the weights of a group of blocks fit half of most first caches.
inline constexpr int32_t kSegmentSlices = 36;
/// Bytes of the tables of a band of lines.
inline constexpr int32_t kTableBytes = 192 * 1024;
/// Rows of it whose sums are kept.
inline constexpr int32_t kBandRows = 64;
/// Blocks whose sums are kept, of 16 lanes each.
inline constexpr int32_t kBlockGroup = 8;
inline constexpr int32_t kStripRow = kBlockGroup * 16;
/// Bytes of the thresholds of sixteen channels (lookup_bits.h), and of those of a group.
inline constexpr int32_t kThresholdBytes = 32;
inline int32_t ThresholdBytes(int32_t channels) { return (channels + 15) / 16 * kThresholdBytes; }
/// Eight blocks at a time, whose sums are in memory, pay where so many slices are summed in bytes.
inline constexpr int32_t kMemoryFlush = 5;

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
/// Biases, sums of weights, a conv::NarrowSegment.
inline int32_t BlockHeaderBytes(int32_t planes) {
  return BlockChannels(planes) * 8 + static_cast<int32_t>(sizeof(conv::NarrowSegment));
}

struct LookupShape {
  ConvGeometry g;       ///< with windows of one pixel, those used cut into lines of a handy length
  int32_t pixels;       ///< of the input, all images, or those used
  int32_t slices;       ///< of the channels of one group
  int32_t taps;         ///< of a window
  int32_t segment;      ///< slices that are summed in 16 bits
  int32_t runs;         ///< of neighbouring slices in a segment of a window
  int32_t run_taps;     ///< taps of each
  int32_t columns;      ///< of a line, padding included
  int32_t pixel_bytes;  ///< of a pixel's tables
  int32_t band;         ///< output lines whose tables are there at a time
  int32_t ring;         ///< input lines that they touch
};

/// Filled in place, in the workspace: the kernel has no memory of its own. 32 bits suffice for what
/// LookupSupports lets through.
inline void SetLookupShape(const ConvGeometry& geometry, LookupShape& s) {
  s.g = geometry;
  ConvGeometry& g = s.g;
  const bool one_pixel = conv::IsOnePixel(geometry);
  s.pixels = one_pixel ? g.batch * g.out_h * g.out_w : g.batch * g.in_h * g.in_w;
  s.slices = (g.in_c / g.groups + kSlice - 1) / kSlice;
  s.taps = g.kernel_h * g.kernel_w;
  s.segment = kSegmentSlices / s.taps < 1 ? 1 : kSegmentSlices / s.taps;
  if (one_pixel) {
    int32_t width = kTableBytes / kSliceBytes / s.slices;
    width = width < 1 ? 1 : width > kBandRows ? kBandRows : width;
    if (width > s.pixels) width = s.pixels;
    g.batch = g.stride_h = g.stride_w = 1;
    g.in_w = g.out_w = width;
    g.in_h = g.out_h = (s.pixels + width - 1) / width;
  }
  s.run_taps = g.dilation_w == 1 && s.slices <= s.segment ? g.kernel_w : 1;
  s.runs = s.taps / s.run_taps;
  s.columns = conv::PaddedWidth(g);
  s.pixel_bytes = s.slices * kSliceBytes;
  const int32_t span = (g.kernel_h - 1) * g.dilation_h + 1;
  const int32_t lines = kTableBytes / (s.columns * s.pixel_bytes);
  s.band = lines > span ? (lines - span) / g.stride_h + 1 : 1;
  if (s.band > kBandRows / g.out_w + 2) s.band = kBandRows / g.out_w + 2;
  if (s.band > g.out_h) s.band = g.out_h;
  s.ring = (s.band - 1) * g.stride_h + span;
}

/// Bytes of the parts of the workspace, in their order; whole vectors.
struct LookupParts {
  int32_t shape;       ///< the LookupShape
  int32_t tags;        ///< which line a slot of the ring holds, int64
  int32_t offsets;     ///< int32 [band][runs]: from the first table to that of column 0
  int32_t sums;        ///< int32 [ring][columns]: sums of codes
  int32_t row_sums;    ///< int32 [kBandRows]: the same under a window
  int32_t terms;       ///< int16 [kBandRows]: what they add to the sums of a window
  int32_t base;        ///< int32 [8]: what the sums of a block begin with
  int32_t codes;       ///< conv::BlockCodes
  int32_t acc;         ///< int32 [kBandRows][8]: accumulators
  int32_t strips;      ///< int16 [kBandRows][kStripRow]: sums
  int32_t wide;        ///< int32, likewise
  int32_t shared;      ///< the tables of four bits
  int32_t indices;     ///< of a segment of a group of blocks, a byte each
  int32_t thresholds;  ///< of all channels, lookup_bits.h: of sums, then of bytes
  int32_t bit_sums;    ///< of two codes and a residual's
};

inline LookupParts LookupPartsOf(const LookupShape& s) {
  const auto align = [](int32_t bytes) { return (bytes + 15) & ~15; };
  const int32_t slices = s.slices < s.segment ? s.slices : s.segment;
  return {align(sizeof(LookupShape)),
          align(s.ring * 8),
          align(s.band * s.runs * 4),
          align(s.ring * s.columns * 4),
          kBandRows * 4,
          kBandRows * 2,
          32,
          conv::kNarrowCodesBytes,
          kBandRows * 32,
          kBandRows * kStripRow * 2,
          kBandRows * kStripRow * 4,
          256,
          s.taps * slices * kBlockGroup * kSliceBytes,
          ThresholdBytes(s.g.out_c / s.g.groups) * s.g.groups * 2,
          32};
}

}  // namespace requant::bitserial
