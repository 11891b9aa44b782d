// Convolution on codes of few bits by table lookup, vector form. T-MAC and bitnet.cpp multiply
// matrices this way (Wei et al. 2024, arXiv:2407.00088); here it serves windows, with integers
// throughout.
//
// With x = code - input_lo >= 0 and w = offset + scale * sum(2^p * u_p), u_p bits,
//
//   sum((code - z) * w) = (input_lo - z) * sum(w) + offset * sum(x) + scale * sum_p(2^p sum(x u_p))
//
// The last sums need no products. Four neighboring x have a table of their 16 subset sums, the
// four bits u_p of an output are an index into it, and one byte shuffle looks up 16 outputs, which
// is 64 multiply-accumulates:
//
//   x0 x1 x2 x3  ->  table  [0, x0, x1, x0+x1, x2, ..., x0+x1+x2+x3]   16 bytes
//                               |
//   u0..u3 of 16 outputs  ->  shuffle  ->  16 sums x0 u0 + x1 u1 + x2 u2 + x3 u3
//
// Padding has the code z. The tables of an input pixel are made once for all windows and output
// channels; inputs of one bit need only sixteen tables in all. A byte adds up as many lookups as
// the range of the codes allows; then the sums go to 16 bits, for one segment of the channels.
//
// A vector's lanes are pairs, so that the step to 16 bits needs no shuffles. With a = sum of the
// pairs read as 16 bits (which wraps) and h = sum of their odd bytes, the even bytes' sum is a -
// 256 h. Lanes 2j and 2j + 1 are channels j and j + 8 of one plane, or two planes of channel j.
//
// Where the pairs are two planes, a relaxed dot product with (1, 2) joins them on their way to 16
// bits, which takes two instructions instead of three and half as many sums. Its operand is signed,
// so tables have the middle of their range subtracted, which is twice the codes' range.
//
// Where everything an output adds up fits int16, its sums, modulo 2^16, become codes in int16
// (lookup_codes.h; for two codes lookup_bits.h, which can compare bytes). Elsewhere they go to
// int32.
//
// Packed weights: a header; for every group and block a bias and sum(w) of each channel, what may
// be added to its sums in int16, then for every segment, tap and slice of 16 channels two vectors:
// four bits for each of two tables in every byte.
#include "kernels/bitserial/lookup_bands.h"
#include "kernels/bitserial/lookup_bits.h"
#include "kernels/bitserial/lookup_codes.h"
#include "kernels/bitserial/lookup_sums.h"
#include "kernels/bitserial/lookup_tile.h"
#include "kernels/bitserial/nibbles_simd.h"

namespace requant::bitserial {
namespace {

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

/// Makes the outputs of a group's `channels` from `channel` on, eight at a time: as int16 codes
/// where these fit, else from int32 accumulators.
RQ_INLINE void FinishGroup(const ConvQ8Params* p, const Lookups& l, const Band& band, int32_t row,
                           const uint8_t* group, int32_t channel, int32_t channels, bool to_codes) {
  bool widened = l.wide;
  for (int32_t c = 0; c < channels; c += 8) {
    const int32_t in_block = c % l.channels;
    const auto* biases = reinterpret_cast<const int32_t*>(group + c / l.channels * l.block_bytes);
    FillBase(biases + in_block, biases + l.channels + in_block,
             l.header.input_lo - p->input_zero_point, l.base);
    const auto& room = *reinterpret_cast<const conv::NarrowSegment*>(biases + 2 * l.channels);
    if (to_codes && conv::SetCodes(p, room, l.base, channel + c, l.codes)) {
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

/// The thresholds of a group that `bits` are compared with.
RQ_INLINE uint8_t* ThresholdsOf(const Lookups& l, int32_t group, BitSource bits) {
  const ConvGeometry& g = l.shape.g;
  const int32_t of_bytes = bits == BitSource::kBytes ? g.groups : 0;
  return l.thresholds + (of_bytes + group) * ThresholdBytes(g.out_c / g.groups);
}

/// Sets the thresholds of all groups, if outputs have two codes, and returns the numbers that are
/// compared with them; `weights` are the first group's.
RQ_INLINE BitSource SetBits(const ConvQ8Params* p, const Lookups& l, const uint8_t* weights) {
  const ConvGeometry& g = l.shape.g;
  const BitSource bits = FindBits(p, l.header, l.shape);
  if (bits == BitSource::kNone) return bits;
  const int32_t channels = g.out_c / g.groups, blocks = (channels + l.channels - 1) / l.channels;
  for (int32_t group = 0; group < g.groups; ++group, weights += blocks * l.block_bytes) {
    uint8_t* of_bytes = bits == BitSource::kBytes ? ThresholdsOf(l, group, bits) : nullptr;
    if (!SetThresholds(p, l.header, weights, l.block_bytes, blocks, group * channels,
                       ThresholdsOf(l, group, BitSource::kSums), of_bytes)) {
      return BitSource::kNone;
    }
  }
  if (p->residual != nullptr) {
    SetSums(p, *l.codes, reinterpret_cast<uint8_t*>(l.base), l.bit_sums);
  }
  return bits;
}

/// Compares bytes for a band and kBlocks blocks.
template <int kBlocks, bool kToBits>
RQ_INLINE void BitBlocks(const Lookups& l, const Band& band, const uint8_t* weights,
                         int32_t blocks_done, const uint8_t* thresholds, int32_t lower,
                         uint8_t* out, ptrdiff_t stride, int32_t last) {
  const LookupShape& s = l.shape;
  const uint8_t* indices =
      Indices<kBlocks>(l, band, weights + l.header_bytes, s.slices * 2, blocks_done);
  const ptrdiff_t step = static_cast<ptrdiff_t>(s.g.stride_w) * l.pixel_bytes;
  int32_t done = 0, begin = band.first_x;
  for (int32_t line = 0; line < band.lines; ++line, begin = 0) {
    const int32_t n = band.Left(s.g.out_w, begin, done);
    const uint8_t* in = l.tables + l.offsets[line] + begin * step;
    const auto pixels = [&]<typename Tables>() __attribute__((always_inline)) {
      BitPixels<Tables, kBlocks, kToBits>(s.slices, in, step, l.shared, indices, thresholds,
                                          HalvesOf(l.header), l.row_sums + done, n, lower, out,
                                          stride, last);
    };
    if (l.shares) {
      pixels.template operator()<SharedTables>();
    } else {
      pixels.template operator()<OwnTables>();
    }
    out += n * stride;
    done += n;
  }
}

/// Compares bytes for a band and a group's `blocks` blocks, which have `channels` channels.
template <bool kToBits>
RQ_INLINE void BitGroup(const Lookups& l, const Band& band, const uint8_t* weights, int32_t blocks,
                        int32_t channels, const uint8_t* thresholds, int32_t lower, uint8_t* out,
                        ptrdiff_t stride) {
  for (int32_t left = blocks, n; left > 0; left -= n) {
    n = left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
    const int32_t last = left == n ? channels - (blocks - 1) * 16 : 16;
    const auto some = [&]<int kBlocks>() __attribute__((always_inline)) {
      BitBlocks<kBlocks, kToBits>(l, band, weights, blocks - left, thresholds, lower, out, stride,
                                  last);
    };
    if (n == 8) {
      some.template operator()<8>();
    } else if (n == 4) {
      some.template operator()<4>();
    } else if (n == 2) {
      some.template operator()<2>();
    } else {
      some.template operator()<1>();
    }
    weights += n * l.block_bytes;
    thresholds += n * kThresholdBytes;
    out += n * (kToBits ? 2 : 16);
  }
}

/// Writes codes of two values, or their bits, for a group of blocks: `channels` from `channel` of
/// the convolution's group on.
template <bool kToBits>
RQ_INLINE void CompareGroup(const Lookups& l, const Band& band, BitSource bits,
                            const uint8_t* weights, int32_t blocks, int32_t channels,
                            const uint8_t* thresholds, int32_t lower, uint8_t* out,
                            ptrdiff_t stride) {
  if (bits == BitSource::kBytes) {
    BitGroup<kToBits>(l, band, weights, blocks, channels, thresholds, lower, out, stride);
  } else {
    BitRows<kToBits>(l.sums, l.terms, l.header.scale, reinterpret_cast<const int16_t*>(thresholds),
                     band.count, channels, lower, out, stride);
  }
}

/// Makes the outputs of a group of blocks that have two codes.
RQ_INLINE void FinishBits(const ConvQ8Params* p, const Lookups& l, const Band& band, int32_t row,
                          BitSource bits, const uint8_t* weights, int32_t blocks, int32_t group,
                          int32_t channel, int32_t channels) {
  const ConvGeometry& g = l.shape.g;
  const bool adds = p->residual != nullptr;
  const bool to_planes = p->output_planes != 0, from_planes = p->residual_planes != 0;
  const ptrdiff_t at = group * (g.out_c / g.groups) + channel;
  const ptrdiff_t stride = to_planes ? g.out_c / 8 : g.output_stride;
  const ptrdiff_t residual_stride = from_planes ? g.out_c / 8 : p->residual_stride;
  const uint8_t* thresholds = ThresholdsOf(l, group, bits) + 2 * channel;
  uint8_t* out = static_cast<uint8_t*>(p->output) + row * stride + (to_planes ? at / 8 : at);
  const auto* residual = static_cast<const uint8_t*>(p->residual);
  if (adds) residual += row * residual_stride + (from_planes ? at / 8 : at);
  if (!to_planes && !from_planes) {
    CompareGroup<false>(l, band, bits, weights, blocks, channels, thresholds,
                        adds ? 0 : p->requantize.lo, out, stride);
    if (adds) {
      AddToRows(residual, residual_stride, band.count, channels, l.bit_sums, out, stride);
    }
    return;
  }
  // The accumulators are unused here and give room for the bits.
  uint8_t* own = adds ? reinterpret_cast<uint8_t*>(l.acc) : out;
  CompareGroup<true>(l, band, bits, weights, blocks, channels, thresholds, 0, own,
                     adds ? 16 : stride);
  if (!adds) return;
  const auto add = [&]<bool kFromPlanes, bool kToPlanes>() __attribute__((always_inline)) {
    AddBits<kFromPlanes, kToPlanes>(own, residual, residual_stride,
                                    ResidualRange(p).lo + ResidualZero(p), BitSums(p, l.bit_sums),
                                    band.count, channels, p->addition.lo, out, stride);
  };
  if (!from_planes) {
    add.template operator()<false, true>();
  } else if (to_planes) {
    add.template operator()<true, true>();
  } else {
    add.template operator()<true, false>();
  }
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
  const Lookups l = LookupsOf(p, s, *header);
  if (l.shares || p->input_planes != 0) {
    BuildShared(*header, TableBias(*header, s), p->input_spread, l.shared);
  }
  for (int32_t slot = 0; slot < s.ring; ++slot) l.tags[slot] = -1;
  const bool can_make_codes = !l.wide && conv::CanMakeCodes(p);
  if (can_make_codes) conv::SetOutput(p, l.codes);
  const auto* packed = reinterpret_cast<const uint8_t*>(header + 1);
  const BitSource bits =
      p->output_packed == 0 && p->residual_packed == 0 ? SetBits(p, l, packed) : BitSource::kNone;
  // If eight channels that can be made codes add the residual themselves, all other channels must
  // do so as well.
  const bool to_codes = bits != BitSource::kNone || (can_make_codes && conv::HasBytes(p));
  const int32_t group_out = g.out_c / g.groups, most = kBlockGroup * l.channels;

  Band band;
  BitSource expanded = bits;
  for (int32_t row = p->row_begin; row < p->row_end; row += band.count) {
    band = Band::At(row, p->row_end, s);
    const uint8_t* weights = packed;
    for (int32_t group = 0; group < g.groups; ++group) {
      FillTables(p, l, band, row, group);
      BitSource source = bits;
      if (bits == BitSource::kBytes && HasManyBits(l, band)) source = BitSource::kSums;
      if (source != BitSource::kBytes) FillTerms(l, band);
      // Comparing bytes and summing interleave the indices of blocks differently, so a change
      // expands them again.
      band.expands = row == p->row_begin || source != expanded;
      expanded = source;
      for (int32_t channel = 0; channel < group_out; channel += most) {
        const int32_t n = group_out - channel < most ? group_out - channel : most;
        const int32_t blocks = (n + l.channels - 1) / l.channels;
        if (source != BitSource::kBytes) SumGroup(l, band, weights, blocks);
        if (source == BitSource::kNone) {
          FinishGroup(p, l, band, row, weights, group * group_out + channel, n, to_codes);
        } else {
          FinishBits(p, l, band, row, source, weights, blocks, group, channel, n);
        }
        weights += blocks * l.block_bytes;
      }
    }
    if (!to_codes) conv::AddResidual(p, row, band.count);
  }
}
