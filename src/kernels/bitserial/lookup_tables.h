#pragma once
// Builds the tables of vector_lookup.cpp: for every four neighboring codes of a pixel, the sixteen
// sums of their subsets. Vector code, freestanding.
//
//   index   0   1    2    3       4    5       ...  15
//   entry   0   x0   x1   x0+x1   x2   x0+x2   ...  x0+x1+x2+x3
#include "kernels/bitserial/lookup.h"
#include "kernels/bitserial/lookup_tile.h"
#include "kernels/bitserial/nibbles_simd.h"

namespace requant::bitserial {

/// The pair sums (0, a, b, a + b, 0, c, d, c + d) of each four of eight codes.
RQ_INLINE v128_t PairSums(v128_t x, const v128_t* patterns) {
  return wasm_i8x16_add(wasm_v128_and(simd::Lookup16(x, patterns[0]), patterns[1]),
                        wasm_v128_and(simd::Lookup16(x, patterns[2]), patterns[3]));
}

/// Stores two tables, made of pair sums in lanes 0..7 and 8..15, with `bias` subtracted.
RQ_INLINE void StoreTables(v128_t pairs, const v128_t* patterns, v128_t bias, uint8_t* out) {
  const v128_t first = wasm_i8x16_sub(pairs, bias);
  wasm_v128_store(out, wasm_i8x16_add(wasm_i32x4_shuffle(first, first, 0, 0, 0, 0),
                                      simd::Lookup16(pairs, patterns[4])));
  wasm_v128_store(out + 16, wasm_i8x16_add(wasm_i32x4_shuffle(first, first, 2, 2, 2, 2),
                                           simd::Lookup16(pairs, patterns[5])));
}

/// Stores the four tables of sixteen codes.
RQ_INLINE void StoreSlice(v128_t codes, const v128_t* patterns, v128_t bias, uint8_t* out) {
  StoreTables(PairSums(codes, patterns), patterns, bias, out);
  StoreTables(PairSums(wasm_i64x2_shuffle(codes, codes, 1, 1), patterns), patterns, bias, out + 32);
}

/// Whether a dot product joins two planes (vector_lookup.cpp).
RQ_INLINE bool JoinsPlanes(const LookupHeader& header, const LookupShape& s) {
#ifdef REQUANT_RELAXED
  constexpr bool kHasDot = true;
#else
  constexpr bool kHasDot = false;  // without the instruction it takes seven
#endif
  // A slice adds at most 24 times the input's range, so a segment fits int16.
  return kHasDot && header.planes == 2 && s.taps <= kSegmentSlices;
}

/// The amount by which table entries are below the sums.
RQ_INLINE int32_t TableBias(const LookupHeader& header, const LookupShape& s) {
  return JoinsPlanes(header, s) ? 2 * header.input_range : 0;
}

/// Whether inputs of one bit share the sixteen tables of four bits, which are cheaper to make and
/// costlier to find: this pays where a window looks each table up once. GOPS on Zen 5:
///
///   convolution       own tables   shared tables
///   1x1  576 ->   96      300           420
///   1x1   64 ->  384      293           305
///   1x1  320 -> 1280      548           547
///   3x3   64 ->   64      485           473
///   3x3  256 ->  256      555           532
RQ_INLINE bool SharesTables(const ConvQ8Params* p, const LookupHeader& header,
                            const LookupShape& s) {
  const bool spread = p->input_spread != 0 && conv::IsOnePixel(p->geometry);
  return (header.input_range <= 1 || spread) && s.taps == 1;
}

/// Constants that compute where the table of four bits lies among the shared ones: 16 * (the four
/// bits).
struct PlaceConstants {
  v128_t bits, pairs;  ///< for codes of a byte each: the weights of a bit and of a pair of bits
  v128_t high;         ///< for bit planes: masks the high half of a byte

  explicit RQ_MEMBER PlaceConstants(size_t count)
      : bits(simd::LoopConstant(wasm_i32x4_splat(0x40201008), count)),
        pairs(simd::LoopConstant(int8_t{2}, count)),
        high(simd::LoopConstant(int8_t{-16}, count)) {}
};

/// Makes two int16 of every four codes: 8 x0 + 16 x1 and 32 x2 + 64 x3. Places adds and doubles
/// them, which gives the table offsets of 32 codes in eight int16.
RQ_INLINE v128_t PairPlaces(const PlaceConstants& c, v128_t bits) {
  return simd::DotI8I7(c.bits, bits);
}
RQ_INLINE v128_t Places(const PlaceConstants& c, v128_t first, v128_t second) {
  const v128_t pairs = wasm_u8x16_narrow_i16x8(PairPlaces(c, first), PairPlaces(c, second));
  return simd::DotI8I7(c.pairs, pairs);
}
/// The table offsets of eight bytes of a bit plane.
RQ_INLINE v128_t PlacesOfBits(const PlaceConstants& c, v128_t bits) {
  return wasm_i8x16_shuffle(wasm_v128_and(wasm_i32x4_shl(bits, 4), c.high),
                            wasm_v128_and(bits, c.high), 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21,
                            6, 22, 7, 23);
}
/// Stores the table offsets of sixteen codes (or of four times sixteen) and returns the sum of the
/// codes, which is the number of bits set in the offsets.
RQ_INLINE int32_t StorePlaces(const PlaceConstants& c, v128_t bits, uint8_t* out) {
  const v128_t places = Places(c, bits, bits), bytes = wasm_u8x16_narrow_i16x8(places, places);
  wasm_v128_store32_lane(out, bytes, 0);
  return __builtin_popcount(static_cast<uint32_t>(wasm_i32x4_extract_lane(bytes, 0)));
}
RQ_INLINE int32_t StorePlaces(const PlaceConstants& c, const v128_t* bits, uint8_t* out) {
  const v128_t bytes =
      wasm_u8x16_narrow_i16x8(Places(c, bits[0], bits[1]), Places(c, bits[2], bits[3]));
  wasm_v128_store(out, bytes);
  return __builtin_popcountll(static_cast<uint64_t>(wasm_i64x2_extract_lane(bytes, 0))) +
         __builtin_popcountll(static_cast<uint64_t>(wasm_i64x2_extract_lane(bytes, 1)));
}

/// Builds the shared tables of all combinations of four bits, which count 1 << `spread`.
RQ_INLINE void BuildShared(const LookupHeader& header, int32_t less, int32_t spread, uint8_t* out) {
  const v128_t bias = wasm_i8x16_splat(static_cast<int8_t>(less));
  v128_t patterns[6];
  RQ_UNROLL for (int i = 0; i < 6; ++i) patterns[i] = wasm_v128_load(header.patterns[i]);
  const v128_t low = wasm_i8x16_make(0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 1, 1, 0, 0);
  RQ_UNROLL for (int i = 0; i < 4; ++i, out += kSliceBytes) {
    const v128_t bits = wasm_v128_or(low, wasm_i32x4_splat((i & 1) << 16 | (i >> 1) << 24));
    StoreSlice(wasm_i8x16_shl(bits, static_cast<uint32_t>(spread)), patterns, bias, out);
  }
}

/// Builds the own tables, or the offsets of shared ones, of a pixel whose codes are one bit plane;
/// `channels` is a multiple of 32. All bits are those of `padding` where `in` is null. Returns the
/// sum of the bits.
template <typename Tables>
RQ_INLINE int32_t BuildBits(const PlaceConstants& constants, int32_t channels, const uint8_t* in,
                            uint32_t padding, const uint8_t* shared, uint8_t* out) {
  int32_t sum = 0;
  for (int32_t c = 0; c < channels; c += 32, out += 2 * Tables::kBytes) {
    uint32_t word = padding;
    if (in != nullptr) __builtin_memcpy(&word, in + c / 8, 4);
    sum += __builtin_popcount(word);
    if (Tables::kBytes < kSliceBytes) {
      const v128_t bits = wasm_i32x4_splat(static_cast<int32_t>(word));
      wasm_v128_store64_lane(out, PlacesOfBits(constants, bits), 0);
    } else {
      RQ_UNROLL for (int i = 0; i < 8; ++i) {
        wasm_v128_store(out + 16 * i, wasm_v128_load(shared + (word >> 4 * i & 15) * 16));
      }
    }
  }
  return sum;
}

/// Writes the offsets of shared tables and the sums of codes for `count` pixels, `step` bytes
/// apart. Pixels are bit planes whose bits count 1 << `spread`, or bytes with codes from `least` on
/// and channels in multiples of 64.
template <bool kPlanes>
__attribute__((noinline)) void BuildPlaces(int32_t channels, int32_t count, const uint8_t* in,
                                           ptrdiff_t step, int32_t least, int32_t spread,
                                           uint8_t* out, int32_t* sums) {
  const v128_t lo = wasm_i8x16_splat(static_cast<int8_t>(least));
  const PlaceConstants constants(static_cast<size_t>(count));
  for (int32_t i = 0; i < count; ++i, in += step) {
    const uint8_t* from = in;
    int32_t sum = 0, left = channels;
    for (; left >= 64; left -= 64, out += 16) {
      if (kPlanes) {
        uint64_t word;
        __builtin_memcpy(&word, from, 8);
        sum += __builtin_popcountll(word);
        wasm_v128_store(out, PlacesOfBits(constants, wasm_v128_load64_zero(from)));
        from += 8;
        continue;
      }
      v128_t codes[4];
      RQ_UNROLL for (int j = 0; j < 4; ++j) {
        codes[j] = wasm_i8x16_sub(wasm_v128_load(from + kSlice * j), lo);
      }
      sum += StorePlaces(constants, codes, out);
      from += 64;
    }
    if (kPlanes && left > 0) {
      const v128_t bits = wasm_v128_load32_zero(from);
      sum += __builtin_popcount(static_cast<uint32_t>(wasm_i32x4_extract_lane(bits, 0)));
      wasm_v128_store64_lane(out, PlacesOfBits(constants, bits), 0);
      out += 8;
    }
    sums[i] = sum << spread;
  }
}

/// How a line is read and its tables are written; the same for all of its pixels.
struct LineForm {
  bool packed = false, planes = false;
  int32_t channels = 0, least = 0;  ///< tables hold codes less the least one
  uint32_t padding_bits = 0;        ///< padding of a bit plane, unless it is spread
  int32_t spread = 0;
  const uint8_t* shared = nullptr;
  int32_t slices = 0, rest = 0;  ///< rest: codes of the last slice
  v128_t lo, padding, bias, last;
  v128_t patterns[6];
  PlaceConstants constants;

  /// BuildLine sets the other fields.
  explicit RQ_MEMBER LineForm(size_t columns) : constants(columns) {}
};

/// Loads a slice of codes, of which the input has `rest`.
RQ_INLINE v128_t LoadSlice(const LineForm& f, const uint8_t* in, int32_t rest, uint8_t* room) {
  if (f.packed) {
    const v128_t nibbles = rest < kSlice ? wasm_v128_load32_zero(in) : wasm_v128_load64_zero(in);
    return wasm_i8x16_sub(UnpackLow(nibbles), f.lo);
  }
  if (rest == kSlice) return wasm_i8x16_sub(wasm_v128_load(in), f.lo);
  for (int32_t c = 0; c < rest; ++c) room[c] = in[c];
  return wasm_i8x16_sub(wasm_v128_load(room), f.lo);
}

/// Builds the tables or offsets of one pixel, or of padding where `in` is null; returns the sum of
/// its codes.
template <typename Tables>
RQ_INLINE int32_t BuildPixel(const LineForm& f, const uint8_t* in, uint8_t* out) {
  constexpr bool kShares = Tables::kBytes < kSliceBytes;
  v128_t lanes = wasm_i32x4_splat(0);
  int32_t sum = 0;
  const auto store = [&](v128_t codes) __attribute__((always_inline)) {
    if (kShares) {
      sum += StorePlaces(f.constants, codes, out);
    } else {
      lanes = AddLanes(lanes, codes);
      StoreSlice(codes, f.patterns, f.bias, out);
    }
    out += Tables::kBytes;
  };
  int32_t left = f.slices;
  if (in != nullptr && !f.packed) {
    for (; left > 1; --left, in += kSlice) store(wasm_i8x16_sub(wasm_v128_load(in), f.lo));
  }
  for (; left > 0; --left) {
    v128_t codes = f.padding;
    if (in != nullptr) {
      // The bytes at `out`, or behind it, are free for codes until the tables are stored.
      codes = LoadSlice(f, in, left > 1 ? kSlice : f.rest, out);
      in += f.packed ? kSlice / 2 : kSlice;
    }
    if (left == 1) codes = wasm_v128_and(codes, f.last);
    store(codes);
  }
  return kShares ? sum : SumOfLanes(lanes);
}

/// Builds the tables or offsets of the pixel at element `at` of the input, or of padding; returns
/// the sum of its codes.
template <typename Tables>
RQ_INLINE int32_t BuildAt(const LineForm& f, const uint8_t* input, bool inside, ptrdiff_t at,
                          uint8_t* out) {
  if (f.planes && (inside || f.spread == 0)) {
    const uint8_t* in = inside ? input + at / 8 : nullptr;
    return BuildBits<Tables>(f.constants, f.channels, in, f.padding_bits, f.shared, out)
           << f.spread;
  }
  return BuildPixel<Tables>(f, inside ? input + (f.packed ? NibbleBytes(at) : at) : nullptr, out);
}

/// Builds `count` pixels, `step` elements apart, by BuildPlaces where that fits; returns whether it
/// did.
template <typename Tables>
RQ_INLINE bool BuildFast(const LineForm& f, const uint8_t* input, ptrdiff_t at, ptrdiff_t step,
                         int32_t count, uint8_t* out, int32_t* sums) {
  if (Tables::kBytes == kSliceBytes || f.packed || (!f.planes && f.channels % 64 != 0))
    return false;
  if (f.planes) {
    BuildPlaces<true>(f.channels, count, input + at / 8, step / 8, 0, f.spread, out, sums);
  } else {
    BuildPlaces<false>(f.channels, count, input + at, step, f.least, 0, out, sums);
  }
  return true;
}

/// The input's pixel under an output row, for windows of one pixel.
RQ_INLINE int32_t PixelUnder(const ConvGeometry& g, int32_t row) {
  const int32_t line = row / g.out_w, image = line / g.out_h;
  return (image * g.in_h + (line - image * g.out_h) * g.stride_h) * g.in_w +
         (row - line * g.out_w) * g.stride_w;
}

/// Builds the tables, or the offsets of shared ones, and the sums of line y of an image; a line
/// outside the image is padding.
template <typename Tables>
__attribute__((noinline)) void BuildLine(const ConvQ8Params* p, const LookupShape& s, int32_t image,
                                         int32_t y, int32_t group, const LookupHeader& header,
                                         const uint8_t* shared, uint8_t* out, int32_t* sums) {
  const ConvGeometry& g = s.g;
  const int32_t channels = g.in_c / g.groups, columns = s.columns, stride = g.stride_w;
  const int32_t first = (image * g.in_h + y) * g.in_w;
  // With windows of one pixel the last line may be shorter.
  int32_t width = y < 0 || y >= g.in_h ? 0 : g.in_w;
  if (width > s.pixels - first) width = s.pixels - first;
  const int32_t padding = p->input_zero_point - header.input_lo;
  LineForm f(static_cast<size_t>(columns));
  f.packed = p->input_packed != 0;
  f.planes = p->input_planes != 0;
  f.channels = channels;
  // Packed codes are stored less their own base.
  f.least = header.input_lo - (f.packed ? p->input_base : 0);
  f.padding_bits = static_cast<uint32_t>(-padding);
  f.spread = p->input_spread;
  f.shared = shared;
  f.slices = s.slices;
  f.rest = channels - (s.slices - 1) * kSlice;
  f.lo = wasm_i8x16_splat(static_cast<int8_t>(f.least));
  f.padding = wasm_i8x16_splat(static_cast<int8_t>(padding));
  f.bias = wasm_i8x16_splat(static_cast<int8_t>(TableBias(header, s)));
  f.last = wasm_i8x16_lt(wasm_i8x16_make(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                         wasm_i8x16_splat(static_cast<int8_t>(f.rest)));
  RQ_UNROLL for (int i = 0; i < 6; ++i) f.patterns[i] = wasm_v128_load(header.patterns[i]);
  // Strides may skip columns.
  const int32_t used = g.dilation_w == 1 ? g.kernel_w : stride;
  const auto* input = static_cast<const uint8_t*>(p->input);
  const ConvGeometry& o = p->geometry;
  const bool one_pixel = conv::IsOnePixel(o), in_place = conv::IsPointwise(o);
  // Windows of one pixel read the pixels under one output line after the other.
  int32_t row = first, left = one_pixel ? width : columns;
  for (int32_t n; left > 0; left -= n, row += n) {
    n = one_pixel && !in_place && o.out_w - row % o.out_w < left ? o.out_w - row % o.out_w : left;
    const ptrdiff_t pixel = one_pixel ? PixelUnder(o, row) : first - g.pad_left;
    const ptrdiff_t step = static_cast<ptrdiff_t>(one_pixel ? o.stride_w : 1) * g.input_stride;
    ptrdiff_t at = pixel * g.input_stride + group * channels;
    if (one_pixel && BuildFast<Tables>(f, input, at, step, n, out, sums)) {
      out += n * f.slices * Tables::kBytes;
      sums += n;
      continue;
    }
    int32_t x = -g.pad_left, phase = 0;
    for (int32_t i = 0; i < n; ++i, ++x, at += step) {
      if (phase < used) {
        *sums = BuildAt<Tables>(f, input, one_pixel || (x >= 0 && x < width), at, out);
      }
      if (++phase == stride) phase = 0;
      ++sums;
      out += f.slices * Tables::kBytes;
    }
  }
}

}  // namespace requant::bitserial
