#pragma once
// The sums of lookups: of a band of pixels and a group of blocks, segment by segment
// (vector_lookup.cpp). Vector code, freestanding.
#include "kernels/bitserial/lookup_bands.h"
#include "kernels/bitserial/lookup_tile.h"

namespace requant::bitserial {

/// Expands one segment of a block's packed indices to bytes, interleaved with those of the other
/// blocks of kBlocks.
template <int kBlocks>
static __attribute__((noinline)) void Expand(const uint8_t* packed, int32_t vectors, uint8_t* out) {
  const v128_t mask = simd::LoopConstant(int8_t{15}, static_cast<size_t>(vectors));
  for (int32_t i = 0; i < vectors; ++i, packed += 16, out += 32 * kBlocks) {
    const v128_t two = wasm_v128_load(packed);
    wasm_v128_store(out, wasm_v128_and(two, mask));
    wasm_v128_store(out + 16 * kBlocks, wasm_v128_and(wasm_u16x8_shr(two, 4), mask));
  }
}

template <typename Tables, template <int> typename Apart, template <int> typename Joined,
          int kBlocks>
RQ_INLINE void Line(const Lookups& l, const int32_t* offsets, int32_t slices, const uint8_t* in,
                    const uint8_t* indices, bool adds, int32_t count, int16_t* out) {
  const LookupShape& s = l.shape;
  const ptrdiff_t step = static_cast<ptrdiff_t>(s.g.stride_w) * l.pixel_bytes;
  if (l.joins) {
    Pixels<Tables, Joined, kBlocks>(offsets, s.runs, slices, l.slices_per_flush, in, step, l.shared,
                                    indices, true, adds, count, out);
  } else {
    Pixels<Tables, Apart, kBlocks>(offsets, s.runs, slices, l.slices_per_flush, in, step, l.shared,
                                   indices, l.header.planes == 2, adds, count, out);
  }
}

/// Whether the workspace keeps the indices of all blocks, which one segment covers, so that they
/// are expanded once.
RQ_INLINE bool KeepsIndices(const Lookups& l) {
  const ConvGeometry& g = l.shape.g;
  return g.groups == 1 && g.out_c <= kBlockGroup * l.channels && l.shape.slices <= l.shape.segment;
}

/// The expanded indices of kBlocks blocks, whose packed weights are at `weights`; `done` blocks
/// precede them.
template <int kBlocks>
RQ_INLINE const uint8_t* Indices(const Lookups& l, const Band& band, const uint8_t* weights,
                                 int32_t vectors, int32_t done) {
  const bool keeps = KeepsIndices(l);
  uint8_t* out = l.indices + (keeps ? done * vectors * 32 : 0);
  if (keeps && !band.expands) return out;
  for (int32_t b = 0; b < kBlocks; ++b) {
    Expand<kBlocks>(weights + b * l.block_bytes, vectors, out + 16 * b);
  }
  return out;
}

/// Adds up a band's sums for one segment of kBlocks blocks, modulo 2^16.
template <template <int> typename Apart, template <int> typename Joined, int kBlocks>
RQ_INLINE void Segment(const Lookups& l, const Band& band, int32_t slice, int32_t slices,
                       const uint8_t* weights, int32_t blocks_done, int16_t* out) {
  const LookupShape& s = l.shape;
  const uint8_t* indices = Indices<kBlocks>(l, band, weights, s.taps * slices * 2, blocks_done);
  const bool adds = slice > 0 && !l.wide;
  const int32_t run = slices * s.run_taps;
  const int32_t first = slice * (l.shares ? SharedTables::kBytes : OwnTables::kBytes);
  int32_t done = 0, begin = band.first_x;
  for (int32_t line = 0; line < band.lines; ++line, begin = 0) {
    const int32_t n = band.Left(s.g.out_w, begin, done);
    const int32_t* offsets = l.offsets + line * s.runs;
    const uint8_t* in =
        l.tables + first + static_cast<ptrdiff_t>(begin) * s.g.stride_w * l.pixel_bytes;
    int16_t* to = out + done * kStripRow;
    if (l.shares) {
      Line<SharedTables, Apart, Joined, kBlocks>(l, offsets, run, in, indices, adds, n, to);
    } else {
      Line<OwnTables, Apart, Joined, kBlocks>(l, offsets, run, in, indices, adds, n, to);
    }
    done += n;
  }
}

/// Stores or adds int16 sums to out[count][kStripRow]. Sums of joined planes are signed.
static __attribute__((noinline)) void Widen(const int16_t* sums, bool are_signed, bool adds,
                                            int32_t count, int32_t* out) {
  for (int32_t i = 0; i < count * kStripRow; i += 8, sums += 8, out += 8) {
    const v128_t x = wasm_v128_load(sums);
    v128_t low = are_signed ? wasm_i32x4_extend_low_i16x8(x) : wasm_u32x4_extend_low_u16x8(x);
    v128_t high = are_signed ? wasm_i32x4_extend_high_i16x8(x) : wasm_u32x4_extend_high_u16x8(x);
    if (adds) {
      low = wasm_i32x4_add(low, wasm_v128_load(out));
      high = wasm_i32x4_add(high, wasm_v128_load(out + 4));
    }
    wasm_v128_store(out, low);
    wasm_v128_store(out + 4, high);
  }
}

/// Computes the sums of a band for a group of blocks, in l.sums or, wide ones, in l.wide_sums.
RQ_INLINE void SumGroup(const Lookups& l, const Band& band, const uint8_t* group, int32_t blocks) {
  const LookupShape& s = l.shape;
  const bool in_memory = l.slices_per_flush >= kMemoryFlush;
  for (int32_t slice = 0; slice < s.slices; slice += s.segment) {
    const int32_t slices = s.slices - slice < s.segment ? s.slices - slice : s.segment;
    const uint8_t* from = group + l.header_bytes + static_cast<ptrdiff_t>(s.taps) * slice * 32;
    for (int32_t done = 0; done < blocks;) {
      const uint8_t* w = from + done * l.block_bytes;
      int16_t* out = l.sums + done * l.channels;
      const int32_t left = blocks - done;
      if (in_memory && left >= 8) {
        Segment<ApartInMemory, JoinedInMemory, 8>(l, band, slice, slices, w, done, out);
        done += 8;
      } else if (in_memory && left >= 6) {
        Segment<ApartInMemory, JoinedInMemory, 6>(l, band, slice, slices, w, done, out);
        done += 6;
      } else if (left >= 4) {
        Segment<Apart, Joined, 4>(l, band, slice, slices, w, done, out);
        done += 4;
      } else if (left >= 2) {
        Segment<Apart, Joined, 2>(l, band, slice, slices, w, done, out);
        done += 2;
      } else {
        Segment<Apart, Joined, 1>(l, band, slice, slices, w, done, out);
        done += 1;
      }
    }
    if (l.wide) Widen(l.sums, l.joins, slice > 0, band.count, l.wide_sums);
  }
}

}  // namespace requant::bitserial
