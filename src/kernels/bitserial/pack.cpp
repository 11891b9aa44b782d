#include "kernels/bitserial/pack.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/checked_math.h"
#include "kernels/bitserial/levels.h"
#include "kernels/bitserial/lookup.h"
#include "kernels/geometry_check.h"
#include "kernels/variant/kernel.h"
#include "kernels/variant/missing.h"

namespace requant::bitserial {
namespace {

/// Far more than any cache holds, and far below 2^31.
constexpr int64_t kMostTableBytes = 1 << 28;

int32_t WeightAt(const ConvQ8Weights& w, int32_t o, int32_t i, int32_t y, int32_t x) {
  const ConvWeightsLayout& l = w.layout;
  const int64_t at = o * l.stride_o + i * l.stride_i + y * l.stride_h + x * l.stride_w;
  const int32_t value = w.is_signed ? static_cast<const int8_t*>(w.data)[at]
                                    : static_cast<const uint8_t*>(w.data)[at];
  return w.zero_points == nullptr ? value : value - w.zero_points[o];
}

/// Four at most, evenly spaced: two planes.
std::optional<Levels> FewLevels(const ConvQ8Weights& w) {
  const std::optional<Levels> levels = LevelsOf(w, 4);
  return levels && levels->planes <= 2 ? levels : std::nullopt;
}

size_t Slices(const ConvWeightsLayout& l) {
  return (static_cast<size_t>(l.in_c_per_group) + kSlice - 1) / kSlice;
}

size_t BlockBytes(const ConvWeightsLayout& l, int32_t planes) {
  const size_t taps = CheckedMul(static_cast<size_t>(l.kernel_h), static_cast<size_t>(l.kernel_w));
  return CheckedAdd(static_cast<size_t>(BlockChannels(planes)) * 8,
                    CheckedMul(CheckedMul(taps, Slices(l)), kSliceBytes / 2));
}

int32_t Blocks(const ConvWeightsLayout& l, int32_t planes) {
  const int32_t channels = BlockChannels(planes);
  return (l.out_c / l.groups + channels - 1) / channels;
}

}  // namespace

bool LookupSupports(const ConvQ8Weights& w, const ConvGeometry& g) {
  if (w.input_hi - w.input_lo > kMostRange || int64_t{g.kernel_h} * g.kernel_w > kMostTaps) {
    return false;
  }
  // Of one output line: tables, and what is kept for each of its pixels.
  const int64_t columns = int64_t{g.out_w} * g.stride_w + int64_t{g.kernel_w} * g.dilation_w;
  const int64_t lines = int64_t{g.kernel_h - 1} * g.dilation_h + 1;
  const int64_t slices = g.in_c / g.groups / kSlice + 1;
  return columns < kMostTableBytes / (kSliceBytes * slices * lines) && FewLevels(w);
}

bool LookupPays(const ConvQ8Weights& w, const ConvGeometry& g) {
  // Lanes without channels, and tables that few channels share, cost as much as others.
  if (g.in_c / g.groups < 12 || g.out_c / g.groups < 12) return false;
  const int32_t taps = g.kernel_h * g.kernel_w, outputs = g.out_c / g.groups;
  // One plane: on Zen 5, where byte products reach 200 to 240 GOPS, 1x1 lookups reach 82 for 24 to
  // 144 channels, 182 for 576 to 96, 210 for 64 to 384, and 3x3 lookups 416 to 595. On Zen 4, where
  // products of few bits reach 150 to 170, 133 for 192 to 32 and 61 for 576 to 24; without relaxed
  // SIMD there are no such products.
  if (FewLevels(w)->planes == 1) {
    return taps * outputs >= (MissingDot8() == nullptr ? 256 : rq_variant() != 0 ? 48 : 0);
  }
  // Two planes: where a machine multiplies whole bytes, or where few outputs share the tables of an
  // input, products of few bits (conv/vector_narrow.cpp) do more. GOPS by lookup and by products of
  // 4 x 2 bits, Zen 4 at 2.8 GHz: 3x3 of 64 channels 180 and 125, of 16 1.46 times as many, 1x1 of
  // 64 to 256 97 and 93, 512 to 2048 169 and 123, 512 to 128 131 and 131, 256 to 128 119 and 124,
  // 256 to 64 102 and 127; 3x3 of 16 to 32 with stride 2, where a table has a quarter of the
  // windows, 0.9 times as many. Without relaxed SIMD there are pairs of 16 bits instead: 192 to 32
  // channels 1.1 times as many.
  const int32_t shared = taps == 1 ? outputs : taps * outputs / (g.stride_h * g.stride_w);
  return MissingDot8() != nullptr && shared >= (rq_variant() != 0 ? 144 : 32) &&
         g.in_c / g.groups * taps >= 48;
}

size_t LookupPackedSize(const ConvQ8Weights& w) {
  const int32_t planes = FewLevels(w)->planes;
  const size_t blocks = CheckedMul(static_cast<size_t>(w.layout.groups),
                                   static_cast<size_t>(Blocks(w.layout, planes)));
  return CheckedAdd(sizeof(LookupHeader), CheckedMul(blocks, BlockBytes(w.layout, planes)));
}

void LookupPack(const ConvQ8Weights& w, void* packed) {
  const ConvWeightsLayout& l = w.layout;
  const Levels levels = *FewLevels(w);
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
    uint8_t* bits = block + static_cast<size_t>(channels) * 8 + byte;
    int32_t sum = 0;
    for (int32_t tap = 0; tap < taps; ++tap) {
      for (int32_t i = 0; i < l.in_c_per_group; ++i) {
        const int32_t value = WeightAt(w, o, i, tap / l.kernel_w, tap % l.kernel_w);
        sum += value;
        const int32_t u = (value - levels.offset) / levels.scale;
        const int32_t slice = i / kSlice, start = slice / segment * segment;
        const int32_t in_segment = std::min(segment, slices - start);
        const auto at = static_cast<size_t>(start * taps + tap * in_segment + slice - start);
        const int32_t table = i % kSlice / 4, bit = table % 2 * 4 + i % 4;
        uint8_t* to = bits + at * (kSliceBytes / 2) + table / 2 * 16;
        to[0] = static_cast<uint8_t>(to[0] | (u & 1) << bit);
        if (levels.planes == 2) to[1] = static_cast<uint8_t>(to[1] | u >> 1 << bit);
      }
    }
    const int32_t bias = w.bias == nullptr ? 0 : w.bias[o];
    std::memcpy(block + lane * 4, &bias, 4);
    std::memcpy(block + (channels + lane) * 4, &sum, 4);
  }
}

size_t LookupWorkspace(const ConvGeometry& g) {
  CheckConvGeometry(g);
  LookupShape s;
  SetLookupShape(g, s);
  const LookupParts parts = LookupPartsOf(s);
  return static_cast<size_t>(parts.shape) + static_cast<size_t>(parts.tags) +
         static_cast<size_t>(parts.offsets) + static_cast<size_t>(parts.sums) +
         static_cast<size_t>(parts.row_sums) + static_cast<size_t>(parts.strips) +
         static_cast<size_t>(parts.indices) + static_cast<size_t>(s.ring * s.line_bytes);
}

}  // namespace requant::bitserial
