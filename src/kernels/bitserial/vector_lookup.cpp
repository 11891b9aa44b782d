// Convolution of few-bit codes by table lookup, vector form (as T-MAC and bitnet.cpp multiply
// matrices: Wei et al. 2024, arXiv:2407.00088; here for windows, with integers throughout).
//
// With x = code - input_lo >= 0 and w = offset + scale * sum(2^p * u_p), u_p bits,
//
//   sum((code - z) * w) = (input_lo - z) * sum(w) + offset * sum(x) + scale * sum_p(2^p sum(x u_p))
//
// and the last sums need no products: four neighbouring x have a table of their 16 subset sums, the
// four bits u_p of an output are an index into it, and one byte shuffle looks up 16 outputs, which
// is 64 multiply-accumulates. Padding has the code z. The tables of an input pixel are made once
// for all windows and output channels. Sums of bytes are exact for as many lookups as the range of
// the codes allows; then they go to 16 bits, for one segment of the channels, then to 32.
//
// A vector's lanes are pairs, so that the step to 16 bits needs no shuffles: with a = sum of the
// pairs read as 16 bits (which wraps) and h = sum of their odd bytes, the even bytes' sum is
// a - 256 h. Lanes 2j and 2j + 1 are channels j and j + 8 of one plane, or two planes of channel j.
//
// Where two planes of few bits share the pairs, a relaxed dot product with (1, 2) joins them on
// their way to 16 bits: two instructions instead of three, and half as many sums. Its operand is
// signed, so tables have the middle of their range taken off, twice the codes' range.
//
// Packed weights: header; per group and block: a bias and sum(w) for each of its channels, then per
// segment, tap and slice of 16 channels two vectors: four bits for each of two tables.
#include "kernels/bitserial/lookup.h"
#include "kernels/bitserial/nibbles_simd.h"

namespace requant {
namespace {

using bitserial::kSlice;
using bitserial::kSliceBytes;
using bitserial::LookupShape;

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

/// Whether two planes are joined by a dot product: see above.
RQ_INLINE bool JoinsPlanes(const bitserial::LookupHeader* header, const LookupShape& s) {
#ifdef REQUANT_RELAXED
  constexpr bool kHasDot = true;
#else
  constexpr bool kHasDot = false;  // there it takes seven instructions
#endif
  // What a slice adds is at most 24 times the range: a segment of 72 fits int16.
  return kHasDot && header->planes == 2 && s.taps <= bitserial::kSegmentSlices;
}

/// What the entries of tables are less than the sums.
RQ_INLINE int32_t TableBias(const bitserial::LookupHeader* header, const LookupShape& s) {
  return JoinsPlanes(header, s) ? 2 * header->input_range : 0;
}

/// Tables and sums of line y of an image; a line outside is padding.
__attribute__((noinline)) void BuildLine(const ConvQ8Params* p, const LookupShape& s, int32_t image,
                                         int32_t y, int32_t group,
                                         const bitserial::LookupHeader* header, uint8_t* line,
                                         int32_t* sums) {
  const ConvGeometry& g = s.g;
  const int32_t channels = g.in_c / g.groups;
  const int32_t first = (image * g.in_h + y) * g.in_w;
  // The last line of a pointwise convolution may be shorter.
  int32_t width = y < 0 || y >= g.in_h ? 0 : g.in_w;
  if (width > s.pixels - first) width = s.pixels - first;
  const bool packed = p->input_packed != 0;
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
  for (int32_t phase = 0; phase < s.phases; ++phase) {
    int32_t x = phase - g.pad_left;
    for (int32_t i = 0; i < s.phase_width; ++i, x += g.stride_w, line += kSliceBytes) {
      const bool inside = x >= 0 && x < width;
      const uint8_t* in = static_cast<const uint8_t*>(p->input);
      if (inside) {
        const ptrdiff_t at = static_cast<ptrdiff_t>(first + x) * g.input_stride + group * channels;
        in += packed ? bitserial::NibbleBytes(at) : at;
      }
      uint8_t* out = line;
      v128_t sum = wasm_i32x4_splat(0);
      for (int32_t slice = 1; slice <= s.slices; ++slice, in += step, out += s.pitch) {
        v128_t codes = padding;
        if (inside && packed) {
          const bool half = slice == s.slices && rest < kSlice;
          const v128_t nibbles = half ? wasm_v128_load32_zero(in) : wasm_v128_load64_zero(in);
          codes = wasm_i8x16_sub(bitserial::UnpackLow(nibbles), lo);
        } else if (inside) {
          const uint8_t* from = in;
          if (slice == s.slices && rest < kSlice) {
            // Where the tables will be is room for the codes.
            for (int32_t c = 0; c < rest; ++c) out[c] = in[c];
            from = out;
          }
          codes = wasm_i8x16_sub(wasm_v128_load(from), lo);
        }
        if (slice == s.slices) codes = wasm_v128_and(codes, last);
        sum = wasm_i32x4_add(
            sum, wasm_u32x4_extadd_pairwise_u16x8(wasm_u16x8_extadd_pairwise_u8x16(codes)));
        StoreTables(PairSums(codes, patterns), patterns, bias, out);
        StoreTables(PairSums(wasm_i64x2_shuffle(codes, codes, 1, 1), patterns), patterns, bias,
                    out + 32);
      }
      *sums++ = wasm_i32x4_extract_lane(sum, 0) + wasm_i32x4_extract_lane(sum, 1) +
                wasm_i32x4_extract_lane(sum, 2) + wasm_i32x4_extract_lane(sum, 3);
    }
  }
}

/// One segment of one block of weights.
struct Segment {
  const int32_t* offsets;  ///< of the taps
  int32_t taps, slices, slices_per_flush;
  ptrdiff_t pitch;
  const uint8_t* indices;
  int32_t even_scale, odd_scale;
};

/// Adds to out[0..7] the products of eight 16-bit sums.
RQ_INLINE void AddScaled(v128_t low, v128_t high, v128_t scale, int32_t* out) {
  wasm_v128_store(out, wasm_i32x4_add(wasm_v128_load(out), wasm_i32x4_mul(low, scale)));
  wasm_v128_store(out + 4, wasm_i32x4_add(wasm_v128_load(out + 4), wasm_i32x4_mul(high, scale)));
}
RQ_INLINE void AddUnsigned(v128_t sums, v128_t scale, int32_t* out) {
  AddScaled(wasm_u32x4_extend_low_u16x8(sums), wasm_u32x4_extend_high_u16x8(sums), scale, out);
}

/// The sums of 16 bits of kPixels pixels, of lanes apart: `pairs` read as 16 bits, `highs` their
/// odd bytes.
template <int kPixels>
struct Apart {
  v128_t pairs[kPixels], highs[kPixels];
  RQ_MEMBER void Clear() {
    RQ_UNROLL for (int i = 0; i < kPixels; ++i) pairs[i] = highs[i] = wasm_i16x8_splat(0);
  }
  RQ_MEMBER void Add(const v128_t* bytes) {
    RQ_UNROLL for (int i = 0; i < kPixels; ++i) {
      pairs[i] = wasm_i16x8_add(pairs[i], bytes[i]);
      highs[i] = wasm_i16x8_add(highs[i], wasm_u16x8_shr(bytes[i], 8));
    }
  }
  RQ_MEMBER void Finish(const Segment& s, int32_t* even, int32_t* odd) const {
    const v128_t even_scale = wasm_i32x4_splat(s.even_scale);
    const v128_t odd_scale = wasm_i32x4_splat(s.odd_scale);
    RQ_UNROLL for (int i = 0; i < kPixels; ++i) {
      const v128_t evens = wasm_i16x8_sub(pairs[i], wasm_i16x8_shl(highs[i], 8));
      AddUnsigned(evens, even_scale, even + 8 * i);
      AddUnsigned(highs[i], odd_scale, odd + 8 * i);
    }
  }
};

/// Of two planes, joined.
template <int kPixels>
struct Joined {
  v128_t sums[kPixels];
  RQ_MEMBER void Clear() {
    RQ_UNROLL for (int i = 0; i < kPixels; ++i) sums[i] = wasm_i16x8_splat(0);
  }
  RQ_MEMBER void Add(const v128_t* bytes) {
    const v128_t weights = wasm_i16x8_splat(0x0201);
    RQ_UNROLL for (int i = 0; i < kPixels; ++i) {
      sums[i] = wasm_i16x8_add(sums[i], simd::DotI8I7(bytes[i], weights));
    }
  }
  RQ_MEMBER void Finish(const Segment& s, int32_t* even, int32_t*) const {
    const v128_t scale = wasm_i32x4_splat(s.even_scale);
    RQ_UNROLL for (int i = 0; i < kPixels; ++i) {
      AddScaled(wasm_i32x4_extend_low_i16x8(sums[i]), wasm_i32x4_extend_high_i16x8(sums[i]), scale,
                even + 8 * i);
    }
  }
};

/// Four lookups of kPixels pixels; the first of several are the sums.
template <int kPixels, bool kFirst>
RQ_INLINE void LookUpSlice(const uint8_t* tables, const uint8_t* indices, v128_t* acc) {
  RQ_UNROLL for (int r = 0; r < 4; ++r) {
    const v128_t index = wasm_v128_load(indices + 16 * r);
    RQ_UNROLL for (int i = 0; i < kPixels; ++i) {
      const v128_t found = simd::Lookup16(wasm_v128_load(tables + kSliceBytes * i + 16 * r), index);
      acc[i] = kFirst && r == 0 ? found : wasm_i8x16_add(acc[i], found);
    }
  }
}

/// Output pixels that are neighbours, times 16 lanes.
template <template <int> typename Sums, int kPixels>
RQ_INLINE void Tile(const Segment& s, const uint8_t* tables, int32_t* even, int32_t* odd) {
  Sums<kPixels> sums;
  sums.Clear();
  const uint8_t* indices = s.indices;
  for (int32_t tap = 0; tap < s.taps; ++tap) {
    const uint8_t* t = tables + s.offsets[tap];
    for (int32_t left = s.slices; left > 0;) {
      int32_t n = left < s.slices_per_flush ? left : s.slices_per_flush;
      left -= n;
      v128_t acc[kPixels];
      LookUpSlice<kPixels, true>(t, indices, acc);
      t += s.pitch, indices += kSliceBytes;
      while (--n > 0) {
        LookUpSlice<kPixels, false>(t, indices, acc);
        t += s.pitch, indices += kSliceBytes;
      }
      sums.Add(acc);
    }
  }
  sums.Finish(s, even, odd);
}

/// `count` pixels of a line. Threes, so that 7 and 14 pixels leave no rest.
template <template <int> typename Sums>
__attribute__((noinline)) void Pixels(const int32_t* offsets, int32_t taps, int32_t slices,
                                      int32_t slices_per_flush, ptrdiff_t pitch,
                                      const uint8_t* indices, int32_t even_scale, int32_t odd_scale,
                                      const uint8_t* tables, int32_t count, int32_t* even,
                                      int32_t* odd) {
  const Segment s = {offsets, taps,    slices,     slices_per_flush,
                     pitch,   indices, even_scale, odd_scale};
  while (count > 0) {
    int32_t n = 1;
    if (count == 4 || count >= 7) {
      Tile<Sums, 4>(s, tables, even, odd);
      n = 4;
    } else if (count >= 3) {
      Tile<Sums, 3>(s, tables, even, odd);
      n = 3;
    } else {
      Tile<Sums, 1>(s, tables, even, odd);
    }
    count -= n;
    tables += n * kSliceBytes, even += 8 * n, odd += 8 * n;
  }
}

/// out[r][8] = bias + z * sum of weights + offset * sums[r] + more
RQ_INLINE void FillStrip(const int32_t* bias, const int32_t* weights, int32_t z, int32_t offset,
                         const int32_t* sums, int32_t more, int32_t count, int32_t* out) {
  const v128_t zero = wasm_i32x4_splat(z);
  const v128_t low =
      wasm_i32x4_add(wasm_v128_load(bias), wasm_i32x4_mul(zero, wasm_v128_load(weights)));
  const v128_t high =
      wasm_i32x4_add(wasm_v128_load(bias + 4), wasm_i32x4_mul(zero, wasm_v128_load(weights + 4)));
  for (int32_t r = 0; r < count; ++r, out += 8) {
    const v128_t term = wasm_i32x4_splat(offset * sums[r] + more);
    wasm_v128_store(out, wasm_i32x4_add(low, term));
    wasm_v128_store(out + 4, wasm_i32x4_add(high, term));
  }
}

RQ_INLINE void ExpandIndices(const uint8_t* packed, int32_t vectors, uint8_t* out) {
  const v128_t mask = simd::LoopConstant(int8_t{15}, static_cast<size_t>(vectors));
  for (int32_t i = 0; i < vectors; ++i, packed += 16, out += 32) {
    const v128_t two = wasm_v128_load(packed);
    wasm_v128_store(out, wasm_v128_and(two, mask));
    wasm_v128_store(out + 16, wasm_v128_and(wasm_u16x8_shr(two, 4), mask));
  }
}

}  // namespace
}  // namespace requant

void rq_conv_q8_lookup(const requant::ConvQ8Params* p) {
  using namespace requant;
  using namespace requant::bitserial;
  LookupShape& s = *static_cast<LookupShape*>(p->workspace);
  SetLookupShape(p->geometry, s);
  const LookupParts parts = LookupPartsOf(s);
  const ConvGeometry& g = s.g;
  const auto* header = static_cast<const LookupHeader*>(p->weights);
  const int32_t group_out = g.out_c / g.groups, channels = BlockChannels(header->planes);
  const int32_t blocks = (group_out + channels - 1) / channels;
  const int32_t columns = s.phases * s.phase_width;
  const int32_t slices_per_flush =
      255 / (4 * (header->input_range < 1 ? 1 : header->input_range)) / 4;

  uint8_t* at = static_cast<uint8_t*>(p->workspace);
  int64_t* tags = reinterpret_cast<int64_t*>(at += parts.shape);
  int32_t* offsets = reinterpret_cast<int32_t*>(at += parts.tags);
  int32_t* sums = reinterpret_cast<int32_t*>(at += parts.offsets);
  int32_t* row_sums = reinterpret_cast<int32_t*>(at += parts.sums);
  int32_t* even = reinterpret_cast<int32_t*>(at += parts.row_sums);
  uint8_t* indices = at += parts.strips;
  uint8_t* tables = at + parts.indices;
  const bool joins = JoinsPlanes(header, s);
  // Four tables of each slice, in both planes: once and twice.
  const int32_t bias = TableBias(header, s) * 4 * s.taps * s.slices * 3 * header->scale;
  const int32_t halves = channels / 8;
  int32_t* odd = even + (halves - 1) * (parts.strips / 8);
  for (int32_t slot = 0; slot < s.ring; ++slot) tags[slot] = -1;

  for (int32_t row = p->row_begin; row < p->row_end;) {
    const int32_t first_line = row / g.out_w, image = first_line / g.out_h;
    const int32_t first_x = row - first_line * g.out_w;
    int32_t lines = (image + 1) * g.out_h - first_line;
    if (lines > s.band) lines = s.band;
    int32_t count = lines * g.out_w - first_x;
    if (count > p->row_end - row) count = p->row_end - row;
    lines = (first_x + count + g.out_w - 1) / g.out_w;
    const uint8_t* block = reinterpret_cast<const uint8_t*>(header + 1);
    for (int32_t group = 0; group < g.groups; ++group) {
      int32_t done = 0;  // rows whose sums are there
      for (int32_t line = 0; line < lines; ++line) {
        const int32_t top = (first_line + line - image * g.out_h) * g.stride_h;
        const int32_t begin = line == 0 ? first_x : 0;
        const int32_t n = g.out_w - begin < count - done ? g.out_w - begin : count - done;
        for (int32_t r = 0; r < n; ++r) row_sums[done + r] = 0;
        int32_t* to = offsets + line * s.taps;
        for (int32_t ky = 0; ky < g.kernel_h; ++ky) {
          const int32_t y = top + ky * g.dilation_h, slot = y % s.ring;
          uint8_t* built = tables + slot * s.line_bytes;
          int32_t* built_sums = sums + slot * columns;
          const int64_t tag = ((int64_t{image} << 32) + y) * g.groups + group;
          if (tags[slot] != tag) {
            tags[slot] = tag;
            BuildLine(p, s, image, y - g.pad_top, group, header, built, built_sums);
          }
          for (int32_t kx = 0; kx < g.kernel_w; ++kx) {
            const int32_t x = kx * g.dilation_w;
            const int32_t column = x % g.stride_w * s.phase_width + x / g.stride_w;
            *to++ = slot * s.line_bytes + column * kSliceBytes;
            const int32_t* from = built_sums + column + begin;
            for (int32_t r = 0; r < n; ++r) row_sums[done + r] += from[r];
          }
        }
        done += n;
      }
      for (int32_t b = 0; b < blocks; ++b) {
        const int32_t* bases = reinterpret_cast<const int32_t*>(block);
        block += channels * 8;
        const int32_t z = header->input_lo - p->input_zero_point;
        for (int32_t half = 0; half < halves; ++half) {
          FillStrip(bases + half * 8, bases + channels + half * 8, z, header->offset, row_sums,
                    bias, count, half == 0 ? even : odd);
        }
        const int32_t vectors = s.taps * s.slices * 2;
        ExpandIndices(block, vectors, indices);
        block += vectors * 16;
        const uint8_t* segment = indices;
        for (int32_t slice = 0; slice < s.slices; slice += s.segment) {
          const int32_t slices = s.slices - slice < s.segment ? s.slices - slice : s.segment;
          const uint8_t* from = tables + slice * s.pitch;
          int32_t begin = first_x;
          done = 0;
          for (int32_t line = 0; line < lines; ++line, begin = 0) {
            const int32_t n = g.out_w - begin < count - done ? g.out_w - begin : count - done;
            const int32_t* taps = offsets + line * s.taps;
            const uint8_t* first = from + static_cast<ptrdiff_t>(begin) * kSliceBytes;
            if (joins) {
              Pixels<Joined>(taps, s.taps, slices, slices_per_flush, s.pitch, segment,
                             header->scale, 0, first, n, even + done * 8, even + done * 8);
            } else {
              Pixels<Apart>(taps, s.taps, slices, slices_per_flush, s.pitch, segment, header->scale,
                            header->planes * header->scale, first, n, even + done * 8,
                            odd + done * 8);
            }
            done += n;
          }
          segment += static_cast<ptrdiff_t>(s.taps) * slices * kSliceBytes;
        }
        for (int32_t half = 0; half < halves; ++half) {
          const int32_t channel = b * channels + half * 8, n = group_out - channel;
          if (n <= 0) break;
          bitserial::Finish(p, half == 0 ? even : odd, row, count, group * group_out + channel,
                            n < 8 ? n : 8);
        }
      }
    }
    conv::AddResidual(p, row, count);
    row += count;
  }
}
