// Packing for vector_winograd_narrow.cpp: which operands and shapes its rows take, and how their
// weights lie.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "kernels/bitserial/pack.h"
#include "kernels/conv/pack.h"
#include "kernels/conv/pack_walk.h"

namespace requant::conv {
namespace {

/// So that transformed codes are at most 127, and transformed weights too (with a stride of 2 all
/// weights of four bits are).
constexpr int32_t kMostInputRange = 31, kMostWeightRange = 15, kMostWeight = 14;

/// Of both tiles, as the kernel has them: what it multiplies weights by in either direction, and
/// the most that an input is at a line of points, in ranges of the codes.
constexpr size_t kLines = kWinogradNarrow.WeightLines();
struct Tile {
  int32_t g[kLines][3], most_input[kLines];
};
constexpr Tile kTile2x2{{{2, 0, 0}, {1, 1, 1}, {1, -1, 1}, {0, 0, 2}}, {2, 2, 2, 2}};
constexpr Tile kTileStrided{{{1, 0, 0}, {1, 0, 1}, {0, 0, 1}, {0, 1, 0}}, {2, 1, 2, 1}};
static_assert(kWinogradStridedNarrow.WeightLines() == kLines);

using Taps = std::array<int32_t, kWinogradTaps>;
using Points = std::array<int32_t, kLines * kLines>;
using Block = WinogradNarrowBlock<kLines * kLines>;

/// G g G^T.
Points TransformTaps(const Tile& tile, const Taps& taps) {
  Points out{};
  for (size_t point = 0; point < out.size(); ++point) {
    const int32_t* line = tile.g[point / kLines];
    const int32_t* column = tile.g[point % kLines];
    for (size_t tap = 0; tap < taps.size(); ++tap) {
      out[point] += line[tap / 3] * column[tap % 3] * taps[tap];
    }
  }
  return out;
}

size_t Steps(const ConvQ8Weights& w) {
  return static_cast<size_t>(w.layout.in_c_per_group) / kWinogradGroup;
}
size_t BlockBytes(const ConvQ8Weights& w) {
  return CheckedAdd(sizeof(Block), CheckedMul(Steps(w), size_t{kWinogradTaps} * 16));
}

/// The most that the lanes of int16 of one block can come to in each step, and the least: two for a
/// channel of each point of weights.
class LaneBounds {
 public:
  LaneBounds(const Tile& tile, size_t steps, int32_t input_range)
      : tile_(tile), hi_(steps * kLanes), lo_(steps * kLanes), input_range_(input_range) {}
  void Add(size_t c, int32_t lane, const Points& points) {
    for (size_t point = 0; point < points.size(); ++point) {
      const size_t at = c / kWinogradGroup * kLanes +
                        (point * kChannelBlock + static_cast<size_t>(lane)) * 2 +
                        c % kWinogradGroup / 2;
      const int32_t most =
          tile_.most_input[point / kLines] * tile_.most_input[point % kLines] * input_range_;
      const int32_t product = points[point] * most;
      hi_[at] += std::max(product, 0);
      lo_[at] += std::min(product, 0);
    }
  }
  void Clear() {
    std::fill(hi_.begin(), hi_.end(), 0);
    std::fill(lo_.begin(), lo_.end(), 0);
  }
  /// How many steps the kernel may add up, of those of each part of the weights that it transforms.
  int32_t Segment() const {
    int32_t segment = kWinogradSteps;
    while (segment > 1 && !Fits(segment)) segment /= 2;
    return segment;
  }

 private:
  static constexpr size_t kLanes = size_t{2} * kChannelBlock * kLines * kLines;
  bool Fits(int32_t segment) const {
    for (size_t begin = 0; begin < hi_.size(); begin += kLanes * static_cast<size_t>(segment)) {
      const size_t end = std::min(begin + kLanes * static_cast<size_t>(segment), hi_.size());
      for (size_t lane = 0; lane < kLanes; ++lane) {
        int32_t hi = 0, lo = 0;
        for (size_t at = begin + lane; at < end; at += kLanes) {
          hi += hi_[at];
          lo += lo_[at];
        }
        if (hi > INT16_MAX || lo < INT16_MIN) return false;
      }
    }
    return true;
  }
  const Tile& tile_;
  std::vector<int32_t> hi_, lo_;
  int32_t input_range_;
};

}  // namespace

bool WinogradFitsFewBits(const WinogradShape& shape, const ConvQ8Weights& w, const ConvGeometry& g,
                         int32_t most_weight, int32_t most_weight_range, int32_t most_input_range) {
  if (!WinogradFits(shape, w, g, most_weight, most_input_range) ||
      w.input_hi - w.input_lo > most_input_range) {
    return false;
  }
  const WeightRange range = RangeOf(w, most_weight_range);
  return range.hi - range.lo <= most_weight_range && range.hi <= most_weight &&
         range.lo >= -most_weight;
}

bool WinogradNarrowSupports(const ConvQ8Weights& w, const ConvGeometry& g) {
  return WinogradFitsFewBits(kWinogradNarrow, w, g, kMostWeight, kMostWeightRange, kMostInputRange);
}
bool WinogradStridedNarrowSupports(const ConvQ8Weights& w, const ConvGeometry& g) {
  return WinogradFitsFewBits(kWinogradStridedNarrow, w, g, kMostWeightRange, kMostWeightRange,
                             kMostInputRange);
}

// So many times as fast on Zen 5 as without (16 to 512 channels), by the output's width: below 6;
// 6; 7; 8; 9 and wider.
// - Products of bytes: 0.6 to 1.05; 0.9 to 1.4; 1.2; 1.3 to 1.6; 1.4 to 2.2.
// - Products of few bits: 0.6 to 1.3; 1.1 to 1.5; 1.2 to 1.3; 1.0 to 1.6; 1.3 to 1.9. Of width 4
//   1.1 to 1.3.
// - Lookups of two planes, by bytes: 0.4 to 0.9; 1.1 to 1.7; 0.9 to 1.0; 1.1 to 1.3; 1.1 to 1.6.
// - The same, by few bits: 0.5 to 0.8; not measured; 0.8 to 0.9; 0.8 to 1.1; 0.9 to 1.3, of 128
//   channels and more 1.1 to 1.3.
// - Lookups of one plane are always faster (0.4 to 0.7).
bool WinogradDot8Pays(const ConvQ8Weights& w, const ConvGeometry& g) {
  if (!WinogradFills(kWinogradNarrow, g, 9, 134)) return false;
  if (!bitserial::LookupSupports(w, g)) return true;
  return ConvQ8WeightBits(w) > 1 && WinogradFills(kWinogradNarrow, g, 9, 125);
}
bool WinogradNarrowPays(const ConvQ8Weights& w, const ConvGeometry& g) {
  constexpr int32_t kFewChannels = 128;
  if (!bitserial::LookupSupports(w, g)) return WinogradFills(kWinogradNarrow, g, 4, 134);
  return g.in_c >= kFewChannels && WinogradDot8Pays(w, g);
}

// Times as fast on Zen 5, by the output's width, of 32, 64 and 128 channels or more:
// - as products of bytes: 9 and less 0.7 to 1.1, 10 1.05, 1.1, 1.16 to 1.2; 11 and 13 0.98 to 1.05,
//   1.02 to 1.05, 1.04 to 1.11; 12, 14 and wider 0.92 to 1.12, 1.04 to 1.19, 1.1 to 1.28;
// - as products of few bits: 7 and less, and 9, 0.6 to 1.05; 8 0.84, 0.91, 1.07 to 1.13; wider 0.8
// to
//   0.96, 0.92 to 1.08, 1.01 to 1.23.
// Lookups of two planes are faster (0.9 to 0.97).
bool WinogradStridedDot8Pays(const ConvQ8Weights& w, const ConvGeometry& g) {
  constexpr int32_t kFewChannels = 64;
  return g.in_c >= kFewChannels && WinogradFills(kWinogradStridedNarrow, g, 25, 120) &&
         !bitserial::LookupSupports(w, g);
}
bool WinogradStridedNarrowPays(const ConvQ8Weights& w, const ConvGeometry& g) {
  constexpr int32_t kFewChannels = 128;
  return g.in_c >= kFewChannels && WinogradFills(kWinogradStridedNarrow, g, 16, 120) &&
         !bitserial::LookupSupports(w, g);
}

size_t WinogradNarrowPackedSize(const ConvQ8Weights& w) {
  return CheckedAdd(sizeof(WinogradNarrowHeader), CheckedMul(Blocks(w.layout), BlockBytes(w)));
}

namespace {
__attribute__((noinline)) void Pack(const Tile& tile, const ConvQ8Weights& w, int32_t dot8,
                                    void* packed) {
  const WeightRange range = RangeOf(w, kMostWeightRange);
  const WinogradNarrowHeader header{w.input_lo, w.input_hi - w.input_lo, range.lo, dot8};
  std::memset(packed, 0, WinogradNarrowPackedSize(w));
  std::memcpy(packed, &header, sizeof header);
  uint8_t* first = static_cast<uint8_t*>(packed) + sizeof header;
  std::array<int64_t, kWinogradTaps> offsets;
  for (size_t tap = 0; tap < kWinogradTaps; ++tap) {
    offsets[tap] = static_cast<int64_t>(tap / 3) * w.layout.stride_h +
                   static_cast<int64_t>(tap % 3) * w.layout.stride_w;
  }
  LaneBounds bounds(tile, Steps(w), header.input_range);
  ForEachChannel(w.layout, [&](size_t block, int32_t lane, int32_t o) {
    uint8_t* out = first + block * BlockBytes(w);
    auto& head = *reinterpret_cast<Block*>(out);
    uint8_t* to = out + sizeof head + static_cast<size_t>(lane % 4) * kWinogradGroup;
    const int32_t shift = lane < 4 ? 0 : 4;
    Taps sums{};
    for (size_t c = 0; c < Steps(w) * kWinogradGroup; ++c) {
      const int64_t at = o * w.layout.stride_o + static_cast<int64_t>(c) * w.layout.stride_i;
      Taps taps;
      for (size_t tap = 0; tap < kWinogradTaps; ++tap) {
        taps[tap] = WeightAt(w, o, at + offsets[tap]);
        sums[tap] += taps[tap];
        to[tap * 16] |= static_cast<uint8_t>((taps[tap] - range.lo) << shift);
      }
      if (dot8 == 0) bounds.Add(c, lane, TransformTaps(tile, taps));
      to += c % kWinogradGroup == kWinogradGroup - 1 ? kWinogradTaps * 16 - 3 : 1;
    }
    for (const int32_t sum : sums) head.sum[lane] += sum;
    // The transform of a sum is the sum of the transforms.
    const Points points = TransformTaps(tile, sums);
    for (size_t point = 0; point < points.size(); ++point) {
      head.point_sum[point][lane] = points[point];
    }
    head.bias[lane] = w.bias == nullptr ? 0 : w.bias[o];
    if (dot8 == 0 && (lane == kChannelBlock - 1 || o + 1 == w.layout.out_c)) {
      head.segment = bounds.Segment();
      bounds.Clear();
    }
  });
}
}  // namespace

void WinogradNarrowPack(const ConvQ8Weights& w, void* packed) { Pack(kTile2x2, w, 0, packed); }
void WinogradDot8Pack(const ConvQ8Weights& w, void* packed) { Pack(kTile2x2, w, 1, packed); }
void WinogradStridedNarrowPack(const ConvQ8Weights& w, void* packed) {
  Pack(kTileStrided, w, 0, packed);
}
void WinogradStridedDot8Pack(const ConvQ8Weights& w, void* packed) {
  Pack(kTileStrided, w, 1, packed);
}

size_t WinogradNarrowWorkspace(const ConvGeometry& g) {
  return WinogradWorkspaceOf(kWinogradNarrow, g);
}
size_t WinogradStridedNarrowWorkspace(const ConvGeometry& g) {
  return WinogradWorkspaceOf(kWinogradStridedNarrow, g);
}

}  // namespace requant::conv
