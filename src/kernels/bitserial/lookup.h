#pragma once
// Constants and layouts that the packing, the workspace and the vector kernel of convolution by
// table lookup share. Freestanding; vector_lookup.cpp describes the arithmetic.
//
// A slice is 16 input channels. Its four tables, of 16 bytes each, lie together:
//
//   channels  0..3       4..7       8..11      12..15
//             table 0    table 1    table 2    table 3     = 64 bytes of one pixel
//
// A block is 16 lanes of output: 16 channels if weights have one bit plane, 8 channels if they have
// two. A segment is the slices under the taps of a window whose sums a lane adds up in 16 bits.
#include <stdint.h>

#include "kernels/conv/blocking.h"
#include "kernels/geometry.h"
#include "numeric/few_bits.h"

namespace requant::bitserial {

/// Input channels of a slice, and bytes of its tables.
inline constexpr int32_t kSlice = 16;
inline constexpr int32_t kSliceBytes = 64;
/// The largest difference between two codes of the input: four lookups of four codes each then fit
/// a byte (4 * 4 * 15 = 240).
inline constexpr int32_t kMostRange = kFewBitsRange;
/// The largest number of taps, counted three times if weights have two planes: one slice under all
/// taps then fits 16 bits, 256 * 16 * 15 < 65536.
inline constexpr int32_t kMostTaps = 256;
/// Chosen so that the expanded weights of a block group fill at most half a typical L1 cache.
inline constexpr int32_t kSegmentSlices = 36;
/// Bytes of the tables of one band of lines.
inline constexpr int32_t kTableBytes = 192 * 1024;
/// Rows of a band whose sums the workspace keeps.
inline constexpr int32_t kBandRows = 64;
/// Blocks of a group, whose sums the workspace keeps: 16 lanes each.
inline constexpr int32_t kBlockGroup = 8;
inline constexpr int32_t kStripRow = kBlockGroup * 16;
/// Bytes of the thresholds of sixteen channels (lookup_bits.h), and of all channels of a group.
inline constexpr int32_t kThresholdBytes = 32;
inline int32_t ThresholdBytes(int32_t channels) { return (channels + 15) / 16 * kThresholdBytes; }
/// A tile of eight blocks with sums in memory is faster where bytes can add up at least so many
/// slices.
inline constexpr int32_t kMemoryFlush = 5;

/// The first bytes of the packed weights: w = offset + scale * u, u of `planes` bits.
struct LookupHeader {
  int32_t offset, scale;
  int32_t planes;                 ///< 1: a block is 16 channels, 2: 8 channels of two planes
  int32_t input_lo, input_range;  ///< the input's codes are in [input_lo, input_lo + input_range]
  int32_t reserved[3];
  /// kTablePatterns, because engines materialize a vector constant at every use
  uint8_t patterns[6][16];
};

/// Shuffles that make tables. The first four rows turn eight codes into the pair sums (0, a, b, a +
/// b, 0, c, d, c + d) of each four: indices and mask of the first terms, indices and mask of the
/// second. The last two rows pick, from pair sums, the second terms of a table: of the first four
/// codes, and of the next four.
inline constexpr uint8_t kTablePatterns[6][16] = {
    {0, 0, 0, 0, 2, 2, 2, 2, 4, 4, 4, 4, 6, 6, 6, 6},
    {0, 255, 0, 255, 0, 255, 0, 255, 0, 255, 0, 255, 0, 255, 0, 255},
    {1, 1, 1, 1, 3, 3, 3, 3, 5, 5, 5, 5, 7, 7, 7, 7},
    {0, 0, 255, 255, 0, 0, 255, 255, 0, 0, 255, 255, 0, 0, 255, 255},
    {4, 4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7},
    {12, 12, 12, 12, 13, 13, 13, 13, 14, 14, 14, 14, 15, 15, 15, 15},
};

inline int32_t BlockChannels(int32_t planes) { return planes == 1 ? 16 : 8; }
/// A block begins with biases, sums of weights, and a conv::NarrowSegment.
inline int32_t BlockHeaderBytes(int32_t planes) {
  return BlockChannels(planes) * 8 + static_cast<int32_t>(sizeof(conv::NarrowSegment));
}

struct LookupShape {
  /// a convolution with windows of one pixel is cut into lines of a convenient length
  ConvGeometry g;
  int32_t pixels;   ///< pixels of the input over all images, or those that windows of one pixel use
  int32_t slices;   ///< slices of one group's channels
  int32_t taps;     ///< taps of a window
  int32_t segment;  ///< slices under each tap that are summed in 16 bits
  int32_t runs;     ///< runs of neighboring slices in a segment of a window
  int32_t run_taps;     ///< taps of a run
  int32_t columns;      ///< columns of an input line, padding included
  int32_t pixel_bytes;  ///< bytes of a pixel's tables
  int32_t band;         ///< output lines whose tables the workspace holds at a time
  int32_t ring;         ///< input lines under the band, whose tables are a ring buffer
};

/// Fills `s` in place, in the workspace, because the kernel has no memory of its own. 32 bits
/// suffice for every shape that LookupSupports accepts.
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

/// Bytes of the parts of the workspace, in this order; all are whole vectors.
struct LookupParts {
  int32_t shape;  ///< a LookupShape
  int32_t tags;   ///< int64 [ring]: which input line a slot of the ring holds
  /// int32 [band][runs]: offset from the first table to that of the run in column 0
  int32_t offsets;
  int32_t sums;      ///< int32 [ring][columns]: sums of a pixel's codes
  int32_t row_sums;  ///< int32 [kBandRows]: sums of the codes under a window
  int32_t terms;     ///< int16 [kBandRows]: the addend that a window's codes contribute to its sums
  int32_t base;      ///< int32 [8]: initial sums of a block
  int32_t codes;     ///< a conv::BlockCodes
  int32_t acc;       ///< int32 [kBandRows][8]: accumulators
  int32_t strips;    ///< int16 [kBandRows][kStripRow]: sums of lookups
  int32_t wide;      ///< int32 [kBandRows][kStripRow]: sums of lookups over several segments
  int32_t shared;    ///< the sixteen tables of four bits
  int32_t indices;   ///< a byte each: lookup indices of one segment of a group of blocks
  int32_t thresholds;  ///< thresholds of all channels (lookup_bits.h): for sums, then for bytes
  int32_t bit_sums;    ///< sums of a code and a residual's code, for outputs of two codes
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
