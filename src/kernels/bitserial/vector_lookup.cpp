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
// for all windows and output channels; where inputs are bits, sixteen tables are all there are.
// Sums of bytes are exact for as many lookups as the range of the codes allows; then they go to 16
// bits, for one segment of the channels.
//
// A vector's lanes are pairs, so that the step to 16 bits needs no shuffles: with a = sum of the
// pairs read as 16 bits (which wraps) and h = sum of their odd bytes, the even bytes' sum is
// a - 256 h. Lanes 2j and 2j + 1 are channels j and j + 8 of one plane, or two planes of channel j.
//
// Where two planes of few bits share the pairs, a relaxed dot product with (1, 2) joins them on
// their way to 16 bits: two instructions instead of three, and half as many sums. Its operand is
// signed, so tables have the middle of their range taken off, twice the codes' range.
//
// Where all that an output adds up fits int16, its sums, modulo 2^16, are made codes there
// (lookup_codes.h); elsewhere they go to int32. Where all lookups of an output of two codes fit a
// byte, it is made of that (lookup_bits.h).
//
// Packed weights: header; per group and block: a bias and sum(w) for each of its channels, what may
// be added to its sums in int16, then per segment, tap and slice of 16 channels two vectors: four
// bits for each of two tables.
#include "kernels/bitserial/lookup.h"
#include "kernels/bitserial/lookup_bits.h"
#include "kernels/bitserial/lookup_codes.h"
#include "kernels/bitserial/lookup_tables.h"
#include "kernels/bitserial/lookup_tile.h"
#include "kernels/bitserial/nibbles_simd.h"

namespace requant::bitserial {
namespace {

/// What all bands have in common: how codes are looked up, how weights lie, and the workspace.
struct Lookups {
  const LookupShape& shape;
  const LookupHeader& header;
  bool shares, joins;
  bool wide;     ///< sums of all segments may be more than 16 bits hold
  int32_t bias;  ///< what all tables together are less than the sums, in an accumulator
  int32_t pixel_bytes, line_bytes, slices_per_flush;
  int32_t channels, header_bytes;  ///< of a block
  ptrdiff_t block_bytes;
  int64_t* tags;
  int32_t *offsets, *code_sums, *row_sums;
  int16_t* terms;
  int32_t* base;
  conv::BlockCodes* codes;
  int32_t* acc;
  int16_t* sums;
  int32_t* wide_sums;
  uint8_t *shared, *indices, *thresholds, *tables;
};

RQ_INLINE Lookups LookupsOf(const LookupShape& s, const LookupHeader& header, void* workspace) {
  const LookupParts parts = LookupPartsOf(s);
  const int32_t planes = header.planes, range = header.input_range < 1 ? 1 : header.input_range;
  const bool shares = SharesTables(header, s);
  const int32_t pixel_bytes = s.slices * (shares ? SharedTables::kBytes : OwnTables::kBytes);
  auto* at = static_cast<uint8_t*>(workspace) + parts.shape;
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
      int64_t{s.taps} * s.slices * kSlice * range * (planes == 2 ? 3 : 1) > 65535,
      // Four tables of each slice, in both planes: once and twice.
      TableBias(header, s) * 4 * s.taps * s.slices * 3 * header.scale,
      pixel_bytes,
      // Behind the last pixel of a line there is room for a slice's codes.
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
      at,
  };
}

/// Output rows that are computed at a time, of one image: the first is first_x of its line.
struct Band {
  int32_t first_x, count, lines;

  RQ_INLINE Band At(int32_t row, int32_t end, const LookupShape& s) {
    const ConvGeometry& g = s.g;
    const int32_t line = row / g.out_w, left_lines = g.out_h - line % g.out_h;
    const int32_t most_lines = left_lines < s.band ? left_lines : s.band;
    Band band = {row - line * g.out_w, end - row, 0};
    if (band.count > kBandRows) band.count = kBandRows;
    const int32_t most = most_lines * g.out_w - band.first_x;
    if (band.count > most) band.count = most;
    band.lines = (band.first_x + band.count + g.out_w - 1) / g.out_w;
    return band;
  }
  /// Of a line from `begin` on, `done` rows behind the first.
  RQ_MEMBER int32_t Left(int32_t width, int32_t begin, int32_t done) const {
    return width - begin < count - done ? width - begin : count - done;
  }
};

/// The tables of the lines under a band, as far as they are not there, where they are, and the sums
/// of the codes under its windows.
RQ_INLINE void FillTables(const ConvQ8Params* p, const Lookups& l, const Band& band, int32_t row,
                          int32_t group) {
  const LookupShape& s = l.shape;
  const ConvGeometry& g = s.g;
  const int32_t first_line = row / g.out_w, image = first_line / g.out_h;
  int32_t done = 0, begin = band.first_x;
  for (int32_t line = 0; line < band.lines; ++line, begin = 0) {
    const int32_t top = (first_line + line - image * g.out_h) * g.stride_h;
    const int32_t n = band.Left(g.out_w, begin, done);
    for (int32_t r = 0; r < n; ++r) l.row_sums[done + r] = 0;
    int32_t* to = l.offsets + line * s.runs;
    for (int32_t ky = 0; ky < g.kernel_h; ++ky) {
      const int32_t y = top + ky * g.dilation_h, slot = y % s.ring;
      int32_t* built_sums = l.code_sums + slot * s.columns;
      const int64_t tag = ((int64_t{image} << 32) + y) * g.groups + group;
      if (l.tags[slot] != tag) {
        l.tags[slot] = tag;
        uint8_t* built = l.tables + slot * l.line_bytes;
        if (l.shares) {
          BuildLine<SharedTables>(p, s, image, y - g.pad_top, group, l.header, built, built_sums);
        } else {
          BuildLine<OwnTables>(p, s, image, y - g.pad_top, group, l.header, built, built_sums);
        }
      }
      for (int32_t kx = 0; kx < g.kernel_w; kx += s.run_taps) {
        *to++ = slot * l.line_bytes + kx * g.dilation_w * l.pixel_bytes;
      }
      for (int32_t kx = 0; kx < g.kernel_w; ++kx) {
        const int32_t* from = built_sums + begin * g.stride_w + kx * g.dilation_w;
        for (int32_t r = 0; r < n; ++r) l.row_sums[done + r] += from[r * g.stride_w];
      }
    }
    done += n;
  }
  for (int32_t r = 0; r < band.count; ++r) {
    l.terms[r] = static_cast<int16_t>(l.header.offset * l.row_sums[r] + l.bias);
  }
}

/// A segment of one of kBlocks blocks, whose indices are in turns.
template <int kBlocks>
__attribute__((noinline)) void Expand(const uint8_t* packed, int32_t vectors, uint8_t* out) {
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
                    bool adds, int32_t count, int16_t* out) {
  const LookupShape& s = l.shape;
  const ptrdiff_t step = static_cast<ptrdiff_t>(s.g.stride_w) * l.pixel_bytes;
  if (l.joins) {
    Pixels<Tables, Joined, kBlocks>(offsets, s.runs, slices, l.slices_per_flush, in, step, l.shared,
                                    l.indices, true, adds, count, out);
  } else {
    Pixels<Tables, Apart, kBlocks>(offsets, s.runs, slices, l.slices_per_flush, in, step, l.shared,
                                   l.indices, l.header.planes == 2, adds, count, out);
  }
}

/// The sums of a band for one segment of kBlocks blocks, modulo 2^16.
template <template <int> typename Apart, template <int> typename Joined, int kBlocks>
RQ_INLINE void Segment(const Lookups& l, const Band& band, int32_t slice, int32_t slices,
                       const uint8_t* weights, int16_t* out) {
  const LookupShape& s = l.shape;
  const int32_t vectors = s.taps * slices * 2;
  for (int32_t b = 0; b < kBlocks; ++b) {
    Expand<kBlocks>(weights + b * l.block_bytes, vectors, l.indices + 16 * b);
  }
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
      Line<SharedTables, Apart, Joined, kBlocks>(l, offsets, run, in, adds, n, to);
    } else {
      Line<OwnTables, Apart, Joined, kBlocks>(l, offsets, run, in, adds, n, to);
    }
    done += n;
  }
}

/// out[count][kStripRow] = or += sums, of which joined ones are signed.
__attribute__((noinline)) void Widen(const int16_t* sums, bool are_signed, bool adds, int32_t count,
                                     int32_t* out) {
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

/// base[8] = bias + z * sum of weights
RQ_INLINE void FillBase(const int32_t* bias, const int32_t* weights, int32_t z, int32_t* base) {
  RQ_UNROLL for (int i = 0; i < 8; i += 4) {
    const v128_t product = wasm_i32x4_mul(wasm_i32x4_splat(z), wasm_v128_load(weights + i));
    wasm_v128_store(base + i, wasm_i32x4_add(wasm_v128_load(bias + i), product));
  }
}

/// out[r][8] = base + offset * row_sums[r] + more + scale * sums[r][kStripRow]
__attribute__((noinline)) void FillStrip(const int32_t* base, int32_t offset,
                                         const int32_t* row_sums, int32_t more, int32_t scale,
                                         const int32_t* sums, int32_t count, int32_t* out) {
  const v128_t low = wasm_v128_load(base), high = wasm_v128_load(base + 4);
  const v128_t factor = wasm_i32x4_splat(scale);
  for (int32_t r = 0; r < count; ++r, out += 8, sums += kStripRow) {
    const v128_t term = wasm_i32x4_splat(offset * row_sums[r] + more);
    const v128_t x = wasm_i32x4_mul(wasm_v128_load(sums), factor);
    const v128_t y = wasm_i32x4_mul(wasm_v128_load(sums + 4), factor);
    wasm_v128_store(out, wasm_i32x4_add(wasm_i32x4_add(low, term), x));
    wasm_v128_store(out + 4, wasm_i32x4_add(wasm_i32x4_add(high, term), y));
  }
}

/// The sums of a band for a group of blocks, in l.sums and, wide ones, in l.wide_sums.
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
        Segment<ApartInMemory, JoinedInMemory, 8>(l, band, slice, slices, w, out);
        done += 8;
      } else if (in_memory && left >= 6) {
        Segment<ApartInMemory, JoinedInMemory, 6>(l, band, slice, slices, w, out);
        done += 6;
      } else if (left >= 4) {
        Segment<Apart, Joined, 4>(l, band, slice, slices, w, out);
        done += 4;
      } else if (left >= 2) {
        Segment<Apart, Joined, 2>(l, band, slice, slices, w, out);
        done += 2;
      } else {
        Segment<Apart, Joined, 1>(l, band, slice, slices, w, out);
        done += 1;
      }
    }
    if (l.wide) Widen(l.sums, l.joins, slice > 0, band.count, l.wide_sums);
  }
}

/// The outputs of a group's `channels`, from `channel` on: eight at a time, as codes of int16 or,
/// those that cannot be made so, by accumulators.
RQ_INLINE void FinishGroup(const ConvQ8Params* p, const Lookups& l, const Band& band, int32_t row,
                           const uint8_t* group, int32_t channel, int32_t channels, bool to_codes) {
  bool widened = l.wide;
  for (int32_t c = 0; c < channels; c += 8) {
    const int32_t in_block = c % l.channels;
    const auto* biases = reinterpret_cast<const int32_t*>(group + c / l.channels * l.block_bytes);
    FillBase(biases + in_block, biases + l.channels + in_block,
             l.header.input_lo - p->input_zero_point, l.base);
    const auto& room = *reinterpret_cast<const conv::NarrowSegment*>(biases + 2 * l.channels);
    if (to_codes && conv::SetCodes(p, room, l.base, channel + c, true, l.codes)) {
      WriteCodes(p, l.sums + c, l.terms, l.header.scale, l.codes, row, band.count, channel + c);
      continue;
    }
    if (!widened) Widen(l.sums, l.joins, false, band.count, l.wide_sums);
    widened = true;
    FillStrip(l.base, l.header.offset, l.row_sums, l.bias, l.header.scale, l.wide_sums + c,
              band.count, l.acc);
    const int32_t n = channels - c < 8 ? channels - c : 8;
    Finish(p, l.acc, row, band.count, channel + c, n);
    if (to_codes && p->residual != nullptr) {
      rq_conv_add_residual(p, row, band.count, channel + c, n);
    }
  }
}

/// Sets the thresholds of all groups; false if there are none.
RQ_INLINE bool SetAllThresholds(const ConvQ8Params* p, const Lookups& l, const uint8_t* weights) {
  const ConvGeometry& g = l.shape.g;
  const int32_t channels = g.out_c / g.groups, blocks = (channels + 15) / 16;
  for (int32_t group = 0; group < g.groups; ++group, weights += blocks * l.block_bytes) {
    if (!SetThresholds(p, l.header, weights, l.block_bytes, blocks, group * channels,
                       l.thresholds + group * blocks * kThresholdBytes)) {
      return false;
    }
  }
  return true;
}

/// Codes of a band for kBlocks blocks.
template <int kBlocks>
RQ_INLINE void BitBlocks(const Lookups& l, const Band& band, const uint8_t* weights,
                         const uint8_t* thresholds, int32_t lower, uint8_t* out, int32_t last) {
  const LookupShape& s = l.shape;
  for (int32_t b = 0; b < kBlocks; ++b) {
    Expand<kBlocks>(weights + l.header_bytes + b * l.block_bytes, s.slices * 2, l.indices + 16 * b);
  }
  const ptrdiff_t step = static_cast<ptrdiff_t>(s.g.stride_w) * l.pixel_bytes;
  int32_t done = 0, begin = band.first_x;
  for (int32_t line = 0; line < band.lines; ++line, begin = 0) {
    const int32_t n = band.Left(s.g.out_w, begin, done);
    const uint8_t* in = l.tables + l.offsets[line] + begin * step;
    const auto pixels = [&]<typename Tables>() __attribute__((always_inline)) {
      BitPixels<Tables, kBlocks>(s.slices, in, step, l.shared, l.indices, thresholds,
                                 HalvesOf(l.header), l.row_sums + done, n, lower, out,
                                 s.g.output_stride, last);
    };
    if (l.shares) {
      pixels.template operator()<SharedTables>();
    } else {
      pixels.template operator()<OwnTables>();
    }
    out += n * s.g.output_stride;
    done += n;
  }
}

/// The outputs of a group, of two codes, by the thresholds of its blocks; returns the weights of
/// the next one.
RQ_INLINE const uint8_t* BitGroup(const ConvQ8Params* p, const Lookups& l, const Band& band,
                                  int32_t row, int32_t group, const uint8_t* weights) {
  const ConvGeometry& g = l.shape.g;
  const int32_t channels = g.out_c / g.groups, blocks = (channels + 15) / 16;
  const uint8_t* thresholds = l.thresholds + group * blocks * kThresholdBytes;
  uint8_t* out = static_cast<uint8_t*>(p->output) + row * g.output_stride + group * channels;
  for (int32_t done = 0; done < blocks;) {
    const int32_t left = blocks - done, last = channels - (blocks - 1) * 16;
    const auto some = [&]<int kBlocks>() __attribute__((always_inline)) {
      BitBlocks<kBlocks>(l, band, weights, thresholds, p->requantize.lo, out,
                         left == kBlocks ? last : 16);
      done += kBlocks;
      weights += kBlocks * l.block_bytes;
      thresholds += kBlocks * kThresholdBytes;
      out += kBlocks * 16;
    };
    if (left >= 8) {
      some.template operator()<8>();
    } else if (left >= 4) {
      some.template operator()<4>();
    } else if (left >= 2) {
      some.template operator()<2>();
    } else {
      some.template operator()<1>();
    }
  }
  return weights;
}

}  // namespace
}  // namespace requant::bitserial

void rq_conv_q8_lookup(const requant::ConvQ8Params* p) {
  using namespace requant;
  using namespace requant::bitserial;
  LookupShape& s = *static_cast<LookupShape*>(p->workspace);
  SetLookupShape(p->geometry, s);
  const ConvGeometry& g = s.g;
  const auto* header = static_cast<const LookupHeader*>(p->weights);
  const Lookups l = LookupsOf(s, *header, p->workspace);
  if (l.shares) BuildShared(*header, TableBias(*header, s), l.shared);
  for (int32_t slot = 0; slot < s.ring; ++slot) l.tags[slot] = -1;
  // Eight channels that can be made codes so have the residual added right away, and then the
  // others as well.
  const bool to_codes = !l.wide && conv::CanMakeCodes(p);
  if (to_codes) conv::SetOutput(p, l.codes);
  const auto* packed = reinterpret_cast<const uint8_t*>(header + 1);
  const bool to_bits = to_codes && BitsFit(p, *header, s) && SetAllThresholds(p, l, packed);
  const int32_t group_out = g.out_c / g.groups, most = kBlockGroup * l.channels;

  Band band;
  for (int32_t row = p->row_begin; row < p->row_end; row += band.count) {
    band = Band::At(row, p->row_end, s);
    const uint8_t* weights = packed;
    for (int32_t group = 0; group < g.groups; ++group) {
      FillTables(p, l, band, row, group);
      if (to_bits) {
        weights = BitGroup(p, l, band, row, group, weights);
        continue;
      }
      for (int32_t channel = 0; channel < group_out; channel += most) {
        const int32_t n = group_out - channel < most ? group_out - channel : most;
        const int32_t blocks = (n + l.channels - 1) / l.channels;
        SumGroup(l, band, weights, blocks);
        FinishGroup(p, l, band, row, weights, group * group_out + channel, n, to_codes);
        weights += blocks * l.block_bytes;
      }
    }
    if (!to_codes) conv::AddResidual(p, row, band.count);
  }
}
