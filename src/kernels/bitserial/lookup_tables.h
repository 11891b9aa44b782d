#pragma once
// The tables of vector_lookup.cpp: of every four neighbouring codes of a pixel, the sixteen sums of
// their subsets. Vector code, freestanding.
#include "kernels/bitserial/lookup.h"
#include "kernels/bitserial/lookup_tile.h"
#include "kernels/bitserial/nibbles_simd.h"

namespace requant::bitserial {

/// The pair sums of eight codes.
RQ_INLINE v128_t PairSums(v128_t x, const v128_t* patterns) {
  return wasm_i8x16_add(wasm_v128_and(simd::Lookup16(x, patterns[0]), patterns[1]),
                        wasm_v128_and(simd::Lookup16(x, patterns[2]), patterns[3]));
}

/// The tables of the four codes behind pair sums, lanes 0 to 7 and 8 to 15, less `bias`.
RQ_INLINE void StoreTables(v128_t pairs, const v128_t* patterns, v128_t bias, uint8_t* out) {
  const v128_t first = wasm_i8x16_sub(pairs, bias);
  wasm_v128_store(out, wasm_i8x16_add(wasm_i32x4_shuffle(first, first, 0, 0, 0, 0),
                                      simd::Lookup16(pairs, patterns[4])));
  wasm_v128_store(out + 16, wasm_i8x16_add(wasm_i32x4_shuffle(first, first, 2, 2, 2, 2),
                                           simd::Lookup16(pairs, patterns[5])));
}

/// The tables of sixteen codes.
RQ_INLINE void StoreSlice(v128_t codes, const v128_t* patterns, v128_t bias, uint8_t* out) {
  StoreTables(PairSums(codes, patterns), patterns, bias, out);
  StoreTables(PairSums(wasm_i64x2_shuffle(codes, codes, 1, 1), patterns), patterns, bias, out + 32);
}

/// Whether two planes are joined by a dot product: see above.
RQ_INLINE bool JoinsPlanes(const LookupHeader* header, const LookupShape& s) {
#ifdef REQUANT_RELAXED
  constexpr bool kHasDot = true;
#else
  constexpr bool kHasDot = false;  // there it takes seven instructions
#endif
  // What a slice adds is at most 24 times the range: a segment fits int16.
  return kHasDot && header->planes == 2 && s.taps <= kSegmentSlices;
}

/// What the entries of tables are less than the sums.
RQ_INLINE int32_t TableBias(const LookupHeader* header, const LookupShape& s) {
  return JoinsPlanes(header, s) ? 2 * header->input_range : 0;
}

/// Bits can do with shared tables, which cost less to make and more to find: for few outputs. GOPS
/// on Zen 5, with tables of their own and with shared ones: 1x1 of 576 to 96 channels 304 and 388,
/// 64 to 384 244 and 240, 320 to 1280 492 and 485; 3x3 of 64 450 and 430, of 256 574 and 486.
RQ_INLINE bool SharesTables(const LookupHeader* header, const LookupShape& s) {
  const int32_t lanes = s.g.out_c / s.g.groups * header->planes;
  return header->input_range <= 1 && s.taps * lanes <= 256 * s.g.stride_w;
}

/// Where the tables of four bits each, of sixteen, lie among the shared ones: four bytes.
RQ_INLINE void StorePlaces(v128_t bits, uint8_t* out) {
  const v128_t pairs = simd::DotI8I7(wasm_i32x4_splat(0x40201008), bits);
  const v128_t places = wasm_i32x4_shl(wasm_i32x4_extadd_pairwise_i16x8(pairs), 1);
  wasm_v128_store32_lane(
      out, wasm_i8x16_shuffle(places, places, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12),
      0);
}

/// The shared tables, of all combinations of four bits.
RQ_INLINE void BuildShared(const LookupHeader* header, v128_t bias, uint8_t* out) {
  v128_t patterns[6];
  RQ_UNROLL for (int i = 0; i < 6; ++i) patterns[i] = wasm_v128_load(header->patterns[i]);
  const v128_t low = wasm_i8x16_make(0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 1, 1, 0, 0);
  RQ_UNROLL for (int i = 0; i < 4; ++i, out += kSliceBytes) {
    const v128_t bits = wasm_v128_or(low, wasm_i32x4_splat((i & 1) << 16 | (i >> 1) << 24));
    StoreSlice(bits, patterns, bias, out);
  }
}

/// Tables, or places of shared ones, and sums of line y of an image; a line outside is padding.
__attribute__((noinline)) void BuildLine(const ConvQ8Params* p, const LookupShape& s, int32_t image,
                                         int32_t y, int32_t group, const LookupHeader* header,
                                         uint8_t* out, int32_t* sums) {
  const ConvGeometry& g = s.g;
  const int32_t channels = g.in_c / g.groups;
  const int32_t first = (image * g.in_h + y) * g.in_w;
  // The last line of a pointwise convolution may be shorter.
  int32_t width = y < 0 || y >= g.in_h ? 0 : g.in_w;
  if (width > s.pixels - first) width = s.pixels - first;
  const bool packed = p->input_packed != 0, shares = SharesTables(header, s);
  const int32_t step = packed ? kSlice / 2 : kSlice;
  // Packed codes are less than they are by their own base.
  const v128_t lo =
      wasm_i8x16_splat(static_cast<int8_t>(header->input_lo - (packed ? p->input_base : 0)));
  const v128_t padding =
      wasm_i8x16_splat(static_cast<int8_t>(p->input_zero_point - header->input_lo));
  const v128_t bias = wasm_i8x16_splat(static_cast<int8_t>(TableBias(header, s)));
  const int32_t rest = channels - (s.slices - 1) * kSlice;
  const v128_t last =
      wasm_i8x16_lt(wasm_i8x16_make(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                    wasm_i8x16_splat(static_cast<int8_t>(rest)));
  v128_t patterns[6];
  RQ_UNROLL for (int i = 0; i < 6; ++i) patterns[i] = wasm_v128_load(header->patterns[i]);
  for (int32_t x = -g.pad_left; x < s.columns - g.pad_left; ++x) {
    const bool inside = x >= 0 && x < width;
    const uint8_t* in = static_cast<const uint8_t*>(p->input);
    if (inside) {
      const ptrdiff_t at = static_cast<ptrdiff_t>(first + x) * g.input_stride + group * channels;
      in += packed ? NibbleBytes(at) : at;
    }
    // Windows that leave columns out.
    if ((x + g.pad_left) % g.stride_w >= g.kernel_w && g.dilation_w == 1) {
      out += s.slices * (shares ? SharedTables::kBytes : OwnTables::kBytes);
      ++sums;
      continue;
    }
    v128_t sum = wasm_i32x4_splat(0);
    for (int32_t slice = 1; slice <= s.slices; ++slice, in += step) {
      v128_t codes = padding;
      if (inside && packed) {
        const bool half = slice == s.slices && rest < kSlice;
        const v128_t nibbles = half ? wasm_v128_load32_zero(in) : wasm_v128_load64_zero(in);
        codes = wasm_i8x16_sub(UnpackLow(nibbles), lo);
      } else if (inside) {
        const uint8_t* from = in;
        if (slice == s.slices && rest < kSlice) {
          // Where the tables will be, or behind them, is room for the codes.
          for (int32_t c = 0; c < rest; ++c) out[c] = in[c];
          from = out;
        }
        codes = wasm_i8x16_sub(wasm_v128_load(from), lo);
      }
      if (slice == s.slices) codes = wasm_v128_and(codes, last);
      sum = wasm_i32x4_add(
          sum, wasm_u32x4_extadd_pairwise_u16x8(wasm_u16x8_extadd_pairwise_u8x16(codes)));
      if (shares) {
        StorePlaces(codes, out);
        out += SharedTables::kBytes;
      } else {
        StoreSlice(codes, patterns, bias, out);
        out += OwnTables::kBytes;
      }
    }
    *sums++ = wasm_i32x4_extract_lane(sum, 0) + wasm_i32x4_extract_lane(sum, 1) +
              wasm_i32x4_extract_lane(sum, 2) + wasm_i32x4_extract_lane(sum, 3);
  }
}

}  // namespace requant::bitserial
