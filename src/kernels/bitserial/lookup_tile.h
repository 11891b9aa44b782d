#pragma once
// The inner loops of vector_lookup.cpp: lookups and their sums. Vector code, freestanding.
//
// A tile is one pixel, or two of one bit (lookup_bits.h), by several blocks of 16 lanes. The table
// stays in a register, and x86 takes the indices straight from memory:
//
//              indices of block 0   block 1   ...   block 7
//                       |              |               |
//   table (register) -shuffle------shuffle---...---shuffle
//                       |              |               |
//                       v              v               v
//                    sum 0          sum 1           sum 7     (registers, or memory)
//
// GOPS of one-bit planes by pixels x blocks of a tile alone, Zen 5: 1 x 8 643 to 662, 1 x 4 633, 4
// x 1 606 to 625, 3 x 2 477. Tiles of 1 x 8 instead of 4 x 1 took the kernel from 514 to 575 (28 x
// 28, 3x3, 128 channels).
#include "base/simd.h"
#include "kernels/bitserial/lookup.h"

namespace requant::bitserial {

/// A pixel's slice of sixteen codes has tables of its own.
struct OwnTables {
  static constexpr int kBytes = kSliceBytes;
  RQ_INLINE v128_t Load(const uint8_t* in, int i, const uint8_t*) {
    return wasm_v128_load(in + 16 * i);
  }
};
/// Codes are bits, and each four of them name one of the sixteen shared tables by its offset.
struct SharedTables {
  static constexpr int kBytes = kSliceBytes / 16;
  RQ_INLINE v128_t Load(const uint8_t* in, int i, const uint8_t* shared) {
    return wasm_v128_load(shared + in[i]);
  }
};

/// Stores eight 16-bit sums, or adds them to the stored ones modulo 2^16.
RQ_INLINE void PutSums(v128_t sums, bool adds, int16_t* out) {
  wasm_v128_store(out, adds ? wasm_i16x8_add(sums, wasm_v128_load(out)) : sums);
}
/// Stores sums of even and of odd lanes, which are eight channels and the next eight, or two planes
/// of eight channels.
RQ_INLINE void PutApart(v128_t evens, v128_t odds, bool two_planes, bool adds, int16_t* out) {
  if (two_planes) {
    PutSums(wasm_i16x8_add(evens, wasm_i16x8_shl(odds, 1)), adds, out);
  } else {
    PutSums(evens, adds, out);
    PutSums(odds, adds, out + 8);
  }
}
/// Sums of two planes, joined: even byte + 2 * odd byte.
RQ_INLINE v128_t Join(v128_t bytes) { return simd::DotI8I7(bytes, wasm_i16x8_splat(0x0201)); }

/// Keeps 16-bit sums of even and odd lanes apart: `pairs` adds both read as one 16-bit number,
/// `highs` the odd bytes.
template <int kBlocks>
struct Apart {
  static constexpr bool kInMemory = false;
  v128_t pairs[kBlocks], highs[kBlocks];
  RQ_MEMBER void Clear() {
    RQ_UNROLL for (int i = 0; i < kBlocks; ++i) pairs[i] = highs[i] = wasm_i16x8_splat(0);
  }
  RQ_MEMBER void Add(const v128_t* bytes, bool, bool, int16_t*) {
    RQ_UNROLL for (int i = 0; i < kBlocks; ++i) {
      pairs[i] = wasm_i16x8_add(pairs[i], bytes[i]);
      highs[i] = wasm_i16x8_add(highs[i], wasm_u16x8_shr(bytes[i], 8));
    }
  }
  RQ_MEMBER void Finish(bool two_planes, bool adds, int16_t* out) const {
    RQ_UNROLL for (int i = 0; i < kBlocks; ++i) {
      PutApart(wasm_i16x8_sub(pairs[i], wasm_i16x8_shl(highs[i], 8)), highs[i], two_planes, adds,
               out + (two_planes ? 8 : 16) * i);
    }
  }
};

template <int kBlocks>
struct Joined {
  static constexpr bool kInMemory = false;
  v128_t sums[kBlocks];
  RQ_MEMBER void Clear() {
    RQ_UNROLL for (int i = 0; i < kBlocks; ++i) sums[i] = wasm_i16x8_splat(0);
  }
  RQ_MEMBER void Add(const v128_t* bytes, bool, bool, int16_t*) {
    RQ_UNROLL for (int i = 0; i < kBlocks; ++i) sums[i] = wasm_i16x8_add(sums[i], Join(bytes[i]));
  }
  RQ_MEMBER void Finish(bool, bool adds, int16_t* out) const {
    RQ_UNROLL for (int i = 0; i < kBlocks; ++i) PutSums(sums[i], adds, out + 8 * i);
  }
};

/// Does what Apart does with sums in memory, for more blocks than registers can hold.
template <int kBlocks>
struct ApartInMemory {
  static constexpr bool kInMemory = true;
  RQ_MEMBER void Clear() {}
  RQ_MEMBER void Add(const v128_t* bytes, bool two_planes, bool adds, int16_t* out) {
    const v128_t low = wasm_i16x8_splat(255);
    RQ_UNROLL for (int i = 0; i < kBlocks; ++i) {
      PutApart(wasm_v128_and(bytes[i], low), wasm_u16x8_shr(bytes[i], 8), two_planes, adds,
               out + (two_planes ? 8 : 16) * i);
    }
  }
  RQ_MEMBER void Finish(bool, bool, int16_t*) const {}
};
template <int kBlocks>
struct JoinedInMemory {
  static constexpr bool kInMemory = true;
  RQ_MEMBER void Clear() {}
  RQ_MEMBER void Add(const v128_t* bytes, bool, bool adds, int16_t* out) {
    RQ_UNROLL for (int i = 0; i < kBlocks; ++i) PutSums(Join(bytes[i]), adds, out + 8 * i);
  }
  RQ_MEMBER void Finish(bool, bool, int16_t*) const {}
};

/// The start value of a tile's sums: their present value, their first lookup, or their first lookup
/// plus `start`.
enum class Begin { kThere, kFirst, kStart };

/// Looks up the four tables of a pixel's slice for kBlocks blocks.
template <typename Tables, int kBlocks, Begin kBegin>
RQ_INLINE void LookUpSlice(const uint8_t* in, const uint8_t* shared, const uint8_t* indices,
                           v128_t start, v128_t* acc) {
  RQ_UNROLL for (int r = 0; r < 4; ++r) {
    v128_t table = Tables::Load(in, r, shared);
    if (kBegin == Begin::kStart && r == 0) table = wasm_i8x16_add(table, start);
    RQ_UNROLL for (int i = 0; i < kBlocks; ++i) {
      const v128_t found = simd::Lookup16(table, wasm_v128_load(indices + 16 * (r * kBlocks + i)));
      acc[i] = kBegin != Begin::kThere && r == 0 ? found : wasm_i8x16_add(acc[i], found);
    }
  }
}

/// Looks up the slices of a run, whose sums fit bytes.
template <typename Tables, int kBlocks, Begin kBegin>
RQ_INLINE void LookUpSlices(int32_t count, const uint8_t*& in, const uint8_t* shared,
                            const uint8_t*& indices, v128_t start, v128_t* acc) {
  if (kBegin != Begin::kThere) {
    LookUpSlice<Tables, kBlocks, kBegin>(in, shared, indices, start, acc);
    in += Tables::kBytes, indices += kBlocks * kSliceBytes;
    --count;
  }
  for (; count > 0; --count) {
    LookUpSlice<Tables, kBlocks, Begin::kThere>(in, shared, indices, start, acc);
    in += Tables::kBytes, indices += kBlocks * kSliceBytes;
  }
}

/// Looks up `count` shared tables for kPixels pixels, `step` bytes apart: acc[kBlocks][kPixels]. It
/// loops over single tables, since a loop over slices spills registers.
template <int kPixels, int kBlocks>
RQ_INLINE void LookUpPlaces(int32_t count, const uint8_t* in, ptrdiff_t step, const uint8_t* shared,
                            const uint8_t* indices, v128_t* acc) {
  RQ_ROLLED for (; count > 0; --count, ++in, indices += 16 * kBlocks) {
    v128_t table[kPixels];
    RQ_UNROLL for (int x = 0; x < kPixels; ++x) {
      table[x] = SharedTables::Load(in + x * step, 0, shared);
    }
    RQ_UNROLL for (int i = 0; i < kBlocks; ++i) {
      const v128_t index = wasm_v128_load(indices + 16 * i);
      RQ_UNROLL for (int x = 0; x < kPixels; ++x) {
        v128_t& sum = acc[i * kPixels + x];
        sum = wasm_i8x16_add(sum, simd::Lookup16(table[x], index));
      }
    }
  }
}

/// The sums of one segment for `count` neighboring windows of a line, `step` bytes apart, and
/// kBlocks blocks. Runs of `slices` are at in + offsets[run].
template <typename Tables, template <int> typename Sums, int kBlocks>
__attribute__((noinline)) void Pixels(const int32_t* offsets, int32_t runs, int32_t slices,
                                      int32_t slices_per_flush, const uint8_t* in, ptrdiff_t step,
                                      const uint8_t* shared, const uint8_t* indices,
                                      bool two_planes, bool adds, int32_t count, int16_t* out) {
  const v128_t none = wasm_i8x16_splat(0);
  for (; count > 0; --count, in += step, out += kStripRow) {
    Sums<kBlocks> sums;
    sums.Clear();
    const uint8_t* index = indices;
    if (!Sums<kBlocks>::kInMemory) {
      for (int32_t run = 0; run < runs; ++run) {
        const uint8_t* x = in + offsets[run];
        for (int32_t left = slices; left > 0; left -= slices_per_flush) {
          v128_t acc[kBlocks];
          LookUpSlices<Tables, kBlocks, Begin::kFirst>(
              left < slices_per_flush ? left : slices_per_flush, x, shared, index, none, acc);
          sums.Add(acc, two_planes, true, out);
        }
      }
      sums.Finish(two_planes, adds, out);
      continue;
    }
    // Bytes are added to memory as rarely as they allow, across runs.
    v128_t acc[kBlocks];
    RQ_UNROLL for (int i = 0; i < kBlocks; ++i) acc[i] = wasm_i8x16_splat(0);
    bool more = adds;
    int32_t room = slices_per_flush;
    for (int32_t run = 0; run < runs; ++run) {
      const uint8_t* x = in + offsets[run];
      for (int32_t left = slices; left > 0;) {
        if (room == 0) {
          sums.Add(acc, two_planes, more, out);
          RQ_UNROLL for (int i = 0; i < kBlocks; ++i) acc[i] = wasm_i8x16_splat(0);
          more = true;
          room = slices_per_flush;
        }
        const int32_t n = left < room ? left : room;
        left -= n;
        room -= n;
        LookUpSlices<Tables, kBlocks, Begin::kThere>(n, x, shared, index, none, acc);
      }
    }
    sums.Add(acc, two_planes, more, out);
  }
}

}  // namespace requant::bitserial
