#pragma once
// The state of vector_lookup.cpp: its workspace, the band of output rows that it computes at a
// time, and the tables under that band. Vector code, freestanding.
#include "base/simd.h"
#include "kernels/bitserial/lookup_output.h"
#include "kernels/bitserial/lookup_tables.h"
#include "kernels/bitserial/lookup_tile.h"
#include "kernels/conv/narrow/narrow_codes.h"

namespace requant::bitserial {

/// Everything that does not change from band to band: how codes are looked up, the layout of
/// weights, and the workspace.
struct Lookups {
  const LookupShape& shape;
  const LookupHeader& header;
  bool shares, joins;
  bool wide;     ///< the sums of all segments together may exceed 16 bits
  int32_t bias;  ///< what an accumulator must add because tables hold sums less a bias (TableBias)
  int32_t pixel_bytes, line_bytes, slices_per_flush;
  int32_t channels, header_bytes;  ///< channels and header bytes of a block
  ptrdiff_t block_bytes;
  int64_t* tags;
  int32_t *offsets, *code_sums, *row_sums;
  int16_t* terms;
  int32_t* base;
  conv::BlockCodes* codes;
  int32_t* acc;
  int16_t* sums;
  int32_t* wide_sums;
  uint8_t *shared, *indices, *thresholds, *bit_sums, *tables;
};

RQ_INLINE Lookups LookupsOf(const ConvQ8Params* p, const LookupShape& s,
                            const LookupHeader& header) {
  const LookupParts parts = LookupPartsOf(s);
  const int32_t planes = header.planes, range = header.input_range < 1 ? 1 : header.input_range;
  const bool shares = SharesTables(p, header, s);
  const int32_t pixel_bytes = s.slices * (shares ? SharedTables::kBytes : OwnTables::kBytes);
  auto* at = static_cast<uint8_t*>(p->workspace) + parts.shape;
  const auto take = [&](int32_t bytes) __attribute__((always_inline)) {
    uint8_t* part = at;
    at += bytes;
    return part;
  };
  return {
      s,
      header,
      shares,
      JoinsPlanes(header, s),
      HasWideSums(header, s),
      // Four tables of each slice, with weight 1 in the first plane and 2 in the second.
      TableBias(header, s) * 4 * s.taps * s.slices * 3 * header.scale,
      pixel_bytes,
      // A line ends with room for the codes of one slice.
      (s.columns * pixel_bytes + 31) / 16 * 16,
      255 / (4 * range) / 4,
      BlockChannels(planes),
      BlockHeaderBytes(planes),
      BlockHeaderBytes(planes) + static_cast<ptrdiff_t>(s.taps) * s.slices * 32,
      reinterpret_cast<int64_t*>(take(parts.tags)),
      reinterpret_cast<int32_t*>(take(parts.offsets)),
      reinterpret_cast<int32_t*>(take(parts.sums)),
      reinterpret_cast<int32_t*>(take(parts.row_sums)),
      reinterpret_cast<int16_t*>(take(parts.terms)),
      reinterpret_cast<int32_t*>(take(parts.base)),
      reinterpret_cast<conv::BlockCodes*>(take(parts.codes)),
      reinterpret_cast<int32_t*>(take(parts.acc)),
      reinterpret_cast<int16_t*>(take(parts.strips)),
      reinterpret_cast<int32_t*>(take(parts.wide)),
      take(parts.shared),
      take(parts.indices),
      take(parts.thresholds),
      take(parts.bit_sums),
      at,
  };
}

/// The output rows, all of one image, that are computed at a time. The first one is pixel first_x
/// of its line.
struct Band {
  int32_t first_x, count, lines;
  bool expands;  ///< the indices that stay in the workspace are yet to be expanded

  RQ_INLINE Band At(int32_t row, int32_t end, const LookupShape& s) {
    const ConvGeometry& g = s.g;
    const int32_t line = row / g.out_w, left_lines = g.out_h - line % g.out_h;
    const int32_t most_lines = left_lines < s.band ? left_lines : s.band;
    Band band = {row - line * g.out_w, end - row, 0, false};
    if (band.count > kBandRows) band.count = kBandRows;
    const int32_t most = most_lines * g.out_w - band.first_x;
    if (band.count > most) band.count = most;
    band.lines = (band.first_x + band.count + g.out_w - 1) / g.out_w;
    return band;
  }
  /// Rows of the band that lie in the line from pixel `begin` on, when `done` rows precede them.
  RQ_MEMBER int32_t Left(int32_t width, int32_t begin, int32_t done) const {
    return width - begin < count - done ? width - begin : count - done;
  }
};

/// Stores or adds to to[0..n) the sums of codes under one tap, which are `stride` apart in `from`.
RQ_INLINE void AddTap(const int32_t* from, int32_t stride, bool adds, int32_t n, int32_t* to) {
  int32_t r = 0;
  if (stride == 1) {
    for (; r + 4 <= n; r += 4) {
      const v128_t sums = wasm_v128_load(from + r);
      wasm_v128_store(to + r, adds ? wasm_i32x4_add(sums, wasm_v128_load(to + r)) : sums);
    }
  }
  for (; r < n; ++r) to[r] = from[r * stride] + (adds ? to[r] : 0);
}

/// Builds the tables of those lines under a band that the ring does not hold yet, and sets the
/// offsets of all of them and the sums of the codes under the band's windows.
RQ_INLINE void FillTables(const ConvQ8Params* p, const Lookups& l, const Band& band, int32_t row,
                          int32_t group) {
  const LookupShape& s = l.shape;
  const ConvGeometry& g = s.g;
  const int32_t first_line = row / g.out_w, image = first_line / g.out_h;
  int32_t done = 0, begin = band.first_x;
  for (int32_t line = 0; line < band.lines; ++line, begin = 0) {
    const int32_t top = (first_line + line - image * g.out_h) * g.stride_h;
    const int32_t n = band.Left(g.out_w, begin, done);
    int32_t* to = l.offsets + line * s.runs;
    for (int32_t ky = 0; ky < g.kernel_h; ++ky) {
      const int32_t y = top + ky * g.dilation_h, slot = y % s.ring;
      int32_t* built_sums = l.code_sums + slot * s.columns;
      const int64_t tag = ((int64_t{image} << 32) + y) * g.groups + group;
      if (l.tags[slot] != tag) {
        l.tags[slot] = tag;
        uint8_t* built = l.tables + slot * l.line_bytes;
        if (l.shares) {
          BuildLine<SharedTables>(p, s, image, y - g.pad_top, group, l.header, l.shared, built,
                                  built_sums);
        } else {
          BuildLine<OwnTables>(p, s, image, y - g.pad_top, group, l.header, l.shared, built,
                               built_sums);
        }
      }
      for (int32_t kx = 0; kx < g.kernel_w; kx += s.run_taps) {
        *to++ = slot * l.line_bytes + kx * g.dilation_w * l.pixel_bytes;
      }
      for (int32_t kx = 0; kx < g.kernel_w; ++kx) {
        AddTap(built_sums + begin * g.stride_w + kx * g.dilation_w, g.stride_w, ky + kx > 0, n,
               l.row_sums + done);
      }
    }
    done += n;
  }
}

/// Sets the terms that a window's codes add to its sums.
RQ_INLINE void FillTerms(const Lookups& l, const Band& band) {
  for (int32_t r = 0; r < band.count; ++r) {
    l.terms[r] = static_cast<int16_t>(l.header.offset * l.row_sums[r] + l.bias);
  }
}

/// Whether some window of the band has more set bits than bytes can compare.
RQ_INLINE bool HasManyBits(const Lookups& l, const Band& band) {
  int32_t most = 0;
  for (int32_t r = 0; r < band.count; ++r) most = l.row_sums[r] > most ? l.row_sums[r] : most;
  return most > kMostBits;
}

}  // namespace requant::bitserial
