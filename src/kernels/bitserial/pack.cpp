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

/// Far more than any cache holds, and far below 2^31.
constexpr int64_t kMostTableBytes = 1 << 28;

/// Four at most, evenly spaced: two planes.
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

/// The planes of the weights of a slice, bit i of its channel i.
struct SliceBits {
  uint32_t first = 0, second = 0;
};

/// Slices of an output channel, and how many of its weights are of each level.
class SliceReader {
 public:
  SliceReader(const ConvQ8Weights& w, const conv::Levels& levels, int32_t o)
      : data_(static_cast<const uint8_t*>(w.data)), step_(w.layout.stride_i) {
    const int32_t zero_point = w.zero_points == nullptr ? 0 : w.zero_points[o];
    const int32_t least = w.is_signed ? INT8_MIN : 0;
    for (int32_t u = 0; u < 1 << levels.planes; ++u) {
      // Not every channel has every level: some would be beyond its codes.
      const int32_t code = levels.offset + levels.scale * u + zero_point;
      if (code < least || code > least + UINT8_MAX) continue;
      level_of_[static_cast<uint8_t>(code)] = static_cast<uint8_t>(u);
    }
  }

  /// `count` weights from element `at` on.
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
  uint8_t level_of_[256] = {};  ///< by the byte of a weight
};

}  // namespace

bool LookupSupports(const ConvQ8Weights& w, const ConvGeometry& g) {
  if (w.input_hi - w.input_lo > kMostRange) return false;
  if (g.out_c >= kMostTableBytes / kThresholdBytes) return false;
  // Of one output line: tables, and what is kept for each of its pixels.
  const int64_t columns = int64_t{g.out_w} * g.stride_w + int64_t{g.kernel_w} * g.dilation_w;
  const int64_t lines = int64_t{g.kernel_h - 1} * g.dilation_h + 1;
  const int64_t slices = g.in_c / g.groups / kSlice + 1;
  if (columns >= kMostTableBytes / (kSliceBytes * slices * lines)) return false;
  const std::optional<conv::Levels> levels = FewLevels(w);
  return levels && int64_t{g.kernel_h} * g.kernel_w * (levels->planes == 2 ? 3 : 1) <= kMostTaps;
}

/// Products of few bits (conv/vector_narrow.cpp), and of whole bytes where a machine has them, do
/// more where few outputs share the tables of an input or few products stand behind an output. GOPS
/// on Zen 5, lookups of 1 x 1 or 2 x 1 bits against products of few bits: 1x1 of 64 to 64 channels
/// 113 and 121, 64 to 128 204 and 133, 128 to 64 129 and 127, 256 to 64 256 and 169, 512 to 256 356
/// and 152; 3x3 with stride 2 of 16 to 32 70 and 71, of 32 113 and 99, of 64 to 16 80 and 101. Of 2
/// x 2: 1x1 of 64 to 128 114 and 107, 128 to 64 107 and 126, 256 to 128 163 and 139, 512 to 256 206
/// and 138; 3x3 of 16 64 and 50, of 64 207 and 138; of 4 x 2, 1x1 of 64 to 128 103 and 108, 256 to
/// 128 148 and 126, 3x3 of 64 185 and 134. Against whole bytes (AVX-VNNI) the same from these sizes
/// on: 1 x 1 bits 155 and 113, 2 x 2 163 and 141, 4 x 2 202 and 188 (1x1 of 64 to 128, twice 128 to
/// 256), 3x3 of 64 334 and 139, 204 and 144, 246 and 189. Without relaxed SIMD, against pairs of 16
/// bits: 32 outputs 46 and 52, 64 69 and 57, 256 137 and 60. Bits to bits need less for an output
/// (lookup_bits.h): 1x1 of 24 to 48 channels 85 and 122, 32 to 32 134 and 122, 24 to 144 186 and
/// 125, 96 to 24 186 and 174, 64 to 64 352 and 167, 64 to 128 with stride 2 424 and 172 (whole
/// bytes).
bool LookupPays(const ConvQ8Weights& w, const ConvGeometry& g) {
  const int32_t channels = g.in_c / g.groups, outputs = g.out_c / g.groups;
  // Lanes without channels cost as much as others.
  if (channels < 12 || outputs < 12) return false;
  const int32_t taps = g.kernel_h * g.kernel_w, depth = channels * taps;
  const int32_t shared = taps * outputs / (g.stride_h * g.stride_w);
  const int32_t planes = FewLevels(w)->planes;
  // Three codes: sums of bits.
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
    // Where the channel's one or first plane lies among the lanes.
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
    int64_t least = 0, most = 0;  // of what the codes above the least one add
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
