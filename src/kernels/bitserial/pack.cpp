#include "kernels/bitserial/pack.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "base/checked_math.h"
#include "kernels/bitserial/lookup_output.h"
#include "kernels/conv/levels.h"
#include "kernels/geometry_check.h"
#include "kernels/variant/kernel.h"

namespace requant::bitserial {
namespace {

/// A bound for the tables, far beyond any cache and far below 2^31.
constexpr int64_t kMostTableBytes = 1 << 28;

/// The levels of weights that have at most four values, evenly spaced, which takes two planes.
std::optional<conv::Levels> FewLevels(const ConvQ8Weights& w) {
  const std::optional<conv::Levels> levels = conv::LevelsOf(w, 4);
  return levels && levels->planes <= 2 ? levels : std::nullopt;
}

size_t Slices(const ConvWeightsLayout& l) {
  return (static_cast<size_t>(l.in_c_per_group) + kSlice - 1) / kSlice;
}

size_t BlockBytes(const ConvWeightsLayout& l, int32_t planes) {
  const size_t taps = CheckedMul(static_cast<size_t>(l.kernel_h), static_cast<size_t>(l.kernel_w));
  return CheckedAdd(static_cast<size_t>(BlockHeaderBytes(planes)),
                    CheckedMul(CheckedMul(taps, Slices(l)), kSliceBytes / 2));
}

int32_t Blocks(const ConvWeightsLayout& l, int32_t planes) {
  const int32_t channels = BlockChannels(planes);
  return (l.out_c / l.groups + channels - 1) / channels;
}

/// The bit planes of one slice of weights; bit i is the slice's channel i.
struct SliceBits {
  uint32_t first = 0, second = 0;
};

/// Reads the slices of one output channel and counts its weights of each level.
class SliceReader {
 public:
  SliceReader(const ConvQ8Weights& w, const conv::Levels& levels, int32_t o)
      : data_(static_cast<const uint8_t*>(w.data)), step_(w.layout.stride_i) {
    const int32_t zero_point = w.zero_points == nullptr ? 0 : w.zero_points[o];
    const int32_t least = w.is_signed ? INT8_MIN : 0;
    for (int32_t u = 0; u < 1 << levels.planes; ++u) {
      // A level may lie beyond the codes of a channel, which then has no weight of it.
      const int32_t code = levels.offset + levels.scale * u + zero_point;
      if (code < least || code > least + UINT8_MAX) continue;
      level_of_[static_cast<uint8_t>(code)] = static_cast<uint8_t>(u);
    }
  }

  /// Reads `count` weights from element `at` on.
  SliceBits Read(int64_t at, int32_t count) {
    uint32_t first = 0, second = 0;
    for (int32_t i = 0; i < count; ++i, at += step_) {
      const uint32_t u = level_of_[data_[at]];
      first |= (u & 1) << i;
      second |= (u >> 1) << i;
    }
    const int32_t firsts = std::popcount(first), seconds = std::popcount(second);
    const int32_t both = std::popcount(first & second);
    counts[0] += count - firsts - seconds + both;
    counts[1] += firsts - both;
    counts[2] += seconds - both;
    counts[3] += both;
    return {first, second};
  }

  int64_t counts[4] = {};

 private:
  const uint8_t* data_;
  int64_t step_;
  uint8_t level_of_[256] = {};  ///< indexed by the byte of a weight
};

}  // namespace

bool LookupSupports(const ConvQ8Weights& w, const ConvGeometry& g) {
  if (w.input_hi - w.input_lo > kMostRange) return false;
  if (g.out_c >= kMostTableBytes / kThresholdBytes) return false;
  // The tables of one output line, and what the workspace keeps for each of its pixels.
  const int64_t columns = int64_t{g.out_w} * g.stride_w + int64_t{g.kernel_w} * g.dilation_w;
  const int64_t lines = int64_t{g.kernel_h - 1} * g.dilation_h + 1;
  const int64_t slices = g.in_c / g.groups / kSlice + 1;
  if (columns >= kMostTableBytes / (kSliceBytes * slices * lines)) return false;
  const std::optional<conv::Levels> levels = FewLevels(w);
  return levels && int64_t{g.kernel_h} * g.kernel_w * (levels->planes == 2 ? 3 : 1) <= kMostTaps;
}

/// Few-bit products (conv/vector_narrow.cpp), and products of whole bytes on machines that have
/// them, are faster where few outputs share the tables of an input or few products stand behind an
/// output. GOPS on Zen 5, lookups against the best other kernel (bits are input x weights):
///
///   bits                 convolution            lookups   other   other kernel
///   1 x 1, 2 x 1         1x1  64 ->  64           113      121    few-bit products
///                        1x1  64 -> 128           204      133
///                        1x1 128 ->  64           129      127
///                        1x1 256 ->  64           256      169
///                        1x1 512 -> 256           356      152
///                        3x3/2 16 -> 32            70       71
///                        3x3  32 ->  32           113       99
///                        3x3  64 ->  16            80      101
///   2 x 2                1x1  64 -> 128           114      107
///                        1x1 128 ->  64           107      126
///                        1x1 256 -> 128           163      139
///                        1x1 512 -> 256           206      138
///                        3x3  16 ->  16            64       50
///                        3x3  64 ->  64           207      138
///   4 x 2                1x1  64 -> 128           103      108
///                        1x1 256 -> 128           148      126
///                        3x3  64 ->  64           185      134
///   1 x 1                1x1  64 -> 128           155      113    whole bytes (AVX-VNNI)
///                        3x3  64 ->  64           334      139
///   2 x 2                1x1 128 -> 256           163      141
///                        3x3  64 ->  64           204      144
///   4 x 2                1x1 128 -> 256           202      188
///                        3x3  64 ->  64           246      189
///   without relaxed SIMD  32 outputs               46       52    pairs of 16 bits
///                         64 outputs               69       57
///                        256 outputs              137       60
///   bits to bits         1x1  24 ->  48            85      122    whole bytes
///   (lookup_bits.h)      1x1  32 ->  32           134      122
///                        1x1  24 -> 144           186      125
///                        1x1  96 ->  24           186      174
///                        1x1  64 ->  64           352      167
///                        1x1/2 64 -> 128          424      172
bool LookupIsPreferred(const ConvQ8Weights& w, const ConvGeometry& g) {
  const int32_t channels = g.in_c / g.groups, outputs = g.out_c / g.groups;
  // Lanes without a channel cost as much as others.
  if (channels < 12 || outputs < 12) return false;
  const int32_t taps = g.kernel_h * g.kernel_w, depth = channels * taps;
  const int32_t shared = taps * outputs / (g.stride_h * g.stride_w);
  const int32_t planes = FewLevels(w)->planes;
  // Up to three codes: the output may compare bits.
  if (planes == 1 && taps == 1 && w.input_hi - w.input_lo <= 2) {
    return outputs >= 32 && int64_t{depth} * outputs >= 1500;
  }
  if (rq_variant() == 0) return shared >= 64;
  if (planes == 1) {
    return depth >= 32 && (shared >= 96 || (shared >= 64 && depth >= 128));
  }
  return (shared >= 128 && depth >= 128) || (shared >= 256 && depth >= 64);
}

size_t LookupPackedSize(const ConvQ8Weights& w) {
  const int32_t planes = FewLevels(w)->planes;
  const size_t blocks = CheckedMul(static_cast<size_t>(w.layout.groups),
                                   static_cast<size_t>(Blocks(w.layout, planes)));
  return CheckedAdd(sizeof(LookupHeader), CheckedMul(blocks, BlockBytes(w.layout, planes)));
}

void LookupPack(const ConvQ8Weights& w, void* packed) {
  const ConvWeightsLayout& l = w.layout;
  const conv::Levels levels = *FewLevels(w);
  std::memset(packed, 0, LookupPackedSize(w));
  LookupHeader header = {};
  header.offset = levels.offset;
  header.scale = levels.scale;
  header.planes = levels.planes;
  header.input_lo = w.input_lo;
  header.input_range = w.input_hi - w.input_lo;
  std::memcpy(header.patterns, kTablePatterns, sizeof(kTablePatterns));
  std::memcpy(packed, &header, sizeof(header));
  const int32_t channels = BlockChannels(levels.planes), group_out = l.out_c / l.groups;
  const int32_t taps = l.kernel_h * l.kernel_w;
  const int32_t segment = std::max(1, kSegmentSlices / taps);
  const auto slices = static_cast<int32_t>(Slices(l));
  const size_t block_bytes = BlockBytes(l, levels.planes);
  for (int32_t o = 0; o < l.out_c; ++o) {
    const int32_t group = o / group_out, in_group = o % group_out, lane = in_group % channels;
    uint8_t* block =
        static_cast<uint8_t*>(packed) + sizeof(header) +
        static_cast<size_t>(group * Blocks(l, levels.planes) + in_group / channels) * block_bytes;
    // The lane's byte that holds the channel's only or first plane.
    const int32_t byte = levels.planes == 2 ? 2 * lane : lane % 8 * 2 + lane / 8;
    uint8_t* bits = block + static_cast<size_t>(BlockHeaderBytes(levels.planes)) + byte;
    SliceReader reader(w, levels, o);
    for (int32_t slice = 0; slice < slices; ++slice) {
      const int32_t start = slice / segment * segment;
      const int32_t in_segment = std::min(segment, slices - start);
      const int32_t first = slice * kSlice, count = std::min(kSlice, l.in_c_per_group - first);
      for (int32_t tap = 0; tap < taps; ++tap) {
        const SliceBits of = reader.Read(o * l.stride_o + tap / l.kernel_w * l.stride_h +
                                             tap % l.kernel_w * l.stride_w + first * l.stride_i,
                                         count);
        const auto at = static_cast<size_t>(start * taps + tap * in_segment + slice - start);
        uint8_t* to = bits + at * (kSliceBytes / 2);
        to[0] = static_cast<uint8_t>(of.first);
        to[16] = static_cast<uint8_t>(of.first >> 8);
        if (levels.planes < 2) continue;
        to[1] = static_cast<uint8_t>(of.second);
        to[17] = static_cast<uint8_t>(of.second >> 8);
      }
    }
    int32_t sum = 0;
    // the sums of negative and of positive products of the codes above the least one
    int64_t least = 0, most = 0;
    for (int32_t u = 0; u < 4; ++u) {
      const int64_t of_level = reader.counts[u] * (levels.offset + levels.scale * u);
      sum += static_cast<int32_t>(of_level);
      (of_level < 0 ? least : most) += of_level * header.input_range;
    }
    const int32_t bias = w.bias == nullptr ? 0 : w.bias[o];
    std::memcpy(block + lane * 4, &bias, 4);
    std::memcpy(block + (channels + lane) * 4, &sum, 4);
    auto& segment = *reinterpret_cast<conv::NarrowSegment*>(block + channels * 8);
    if (lane == 0) segment = {taps * slices, -INT16_MAX, INT16_MAX, 0};
    const bool fits = least >= -INT16_MAX && most <= INT16_MAX;
    segment.least_base =
        fits ? std::max(segment.least_base, static_cast<int32_t>(-INT16_MAX - least)) : INT32_MAX;
    if (fits)
      segment.most_base = std::min(segment.most_base, static_cast<int32_t>(INT16_MAX - most));
  }
}

bool LookupCompares(const ConvQ8Params& p) {
  LookupShape s;
  SetLookupShape(p.geometry, s);
  const auto& header = *static_cast<const LookupHeader*>(p.weights);
  if (FindBits(&p, header, s) == BitSource::kNone) return false;
  const ConvGeometry& g = p.geometry;
  const int32_t channels = BlockChannels(header.planes);
  const int32_t blocks = g.groups * ((g.out_c / g.groups + channels - 1) / channels);
  const size_t block_bytes = static_cast<size_t>(BlockHeaderBytes(header.planes)) +
                             static_cast<size_t>(s.taps) * static_cast<size_t>(s.slices) * 32;
  const auto* block = static_cast<const uint8_t*>(p.weights) + sizeof(header);
  for (int32_t b = 0; b < blocks; ++b, block += block_bytes) {
    const auto* biases = reinterpret_cast<const int32_t*>(block);
    const auto& room = *reinterpret_cast<const conv::NarrowSegment*>(biases + 2 * channels);
    for (int32_t c = 0; c < channels; ++c) {
      const int64_t base =
          biases[c] + int64_t{header.input_lo - p.input_zero_point} * biases[channels + c];
      if (base < room.least_base || base > room.most_base) return false;
    }
  }
  return true;
}

size_t LookupWorkspace(const ConvGeometry& g) {
  CheckConvGeometry(g);
  LookupShape s;
  SetLookupShape(g, s);
  const LookupParts p = LookupPartsOf(s);
  size_t bytes = 0;
  for (const int32_t part :
       {p.shape, p.tags, p.offsets, p.sums, p.row_sums, p.terms, p.base, p.codes, p.acc, p.strips,
        p.wide, p.shared, p.indices, p.thresholds, p.bit_sums}) {
    bytes = CheckedAdd(bytes, static_cast<size_t>(part));
  }
  const size_t line_bytes =
      CheckedMul(static_cast<size_t>(s.columns), static_cast<size_t>(s.pixel_bytes)) + 32;
  return CheckedAdd(bytes, CheckedMul(line_bytes, static_cast<size_t>(s.ring)));
}

}  // namespace requant::bitserial
