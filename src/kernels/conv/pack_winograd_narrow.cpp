// Packing for vector_winograd_narrow.cpp: which operands and shapes it takes, and how its weights
// lie.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "kernels/bitserial/pack.h"
#include "kernels/conv/pack.h"
#include "kernels/conv/pack_walk.h"

namespace requant::conv {
namespace {

/// So that transformed codes are at most 127, and transformed weights too.
constexpr int32_t kMostInputRange = 31, kMostWeightRange = 15, kMostWeight = 14;
using Taps = std::array<int32_t, kWinogradTaps>;
using Points = std::array<int32_t, kWinogradNarrow.Points()>;
using Block = WinogradNarrowBlock<kWinogradNarrow.Points()>;

/// 2 G times three values, `step` apart.
std::array<int32_t, 4> TransformLine(const int32_t* g, size_t step) {
  const int32_t sum = g[0] + g[2 * step];
  return {2 * g[0], sum + g[step], sum - g[step], 2 * g[2 * step]};
}
/// (2 G) g (2 G)^T.
Points TransformTaps(const Taps& taps) {
  std::array<int32_t, 12> columns{};
  for (size_t x = 0; x < 3; ++x) {
    const auto column = TransformLine(&taps[x], 3);
    for (size_t i = 0; i < 4; ++i) columns[3 * i + x] = column[i];
  }
  Points out{};
  for (size_t i = 0; i < 4; ++i) {
    const auto row = TransformLine(&columns[3 * i], 1);
    std::copy(row.begin(), row.end(), &out[4 * i]);
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
/// channel of each point.
class LaneBounds {
 public:
  LaneBounds(size_t steps, int32_t input_range)
      : hi_(steps * kLanes), lo_(steps * kLanes), most_input_(4 * input_range) {}
  void Add(size_t c, int32_t lane, const Points& points) {
    for (size_t point = 0; point < points.size(); ++point) {
      const size_t at = c / kWinogradGroup * kLanes +
                        (point * kChannelBlock + static_cast<size_t>(lane)) * 2 +
                        c % kWinogradGroup / 2;
      const int32_t product = points[point] * most_input_;
      hi_[at] += std::max(product, 0);
      lo_[at] += std::min(product, 0);
    }
  }
  /// How many steps the kernel may add up, of those of each part of the weights that it transforms.
  int32_t Segment() const {
    int32_t segment = kWinogradSteps;
    while (segment > 1 && !Fits(segment)) segment /= 2;
    return segment;
  }

 private:
  static constexpr size_t kLanes = size_t{2} * kChannelBlock * kWinogradNarrow.Points();
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
  std::vector<int32_t> hi_, lo_;
  int32_t most_input_;
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
  if (!WinogradFills(kWinogradNarrow, g, 9)) return false;
  if (!bitserial::LookupSupports(w, g)) return true;
  const int64_t outputs =
      int64_t{WinogradTiles(kWinogradNarrow, g)} * kWinogradNarrow.out_h * kWinogradNarrow.out_w;
  return ConvQ8WeightBits(w) > 1 && outputs * 8 <= int64_t{ConvRows(g)} * 10;
}
bool WinogradNarrowPays(const ConvQ8Weights& w, const ConvGeometry& g) {
  constexpr int32_t kFewChannels = 128;
  if (!bitserial::LookupSupports(w, g)) return WinogradFills(kWinogradNarrow, g, 4);
  return g.in_c >= kFewChannels && WinogradDot8Pays(w, g);
}

size_t WinogradNarrowPackedSize(const ConvQ8Weights& w) {
  return CheckedAdd(sizeof(WinogradNarrowHeader), CheckedMul(Blocks(w.layout), BlockBytes(w)));
}

namespace {
__attribute__((noinline)) void Pack(const ConvQ8Weights& w, int32_t dot8, void* packed) {
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
  LaneBounds bounds(Steps(w), header.input_range);
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
      if (dot8 == 0) bounds.Add(c, lane, TransformTaps(taps));
      to += c % kWinogradGroup == kWinogradGroup - 1 ? kWinogradTaps * 16 - 3 : 1;
    }
    for (const int32_t sum : sums) head.sum[lane] += sum;
    // The transform of a sum is the sum of the transforms.
    const Points points = TransformTaps(sums);
    for (size_t point = 0; point < points.size(); ++point) {
      head.point_sum[point][lane] = points[point];
    }
    head.bias[lane] = w.bias == nullptr ? 0 : w.bias[o];
    if (dot8 == 0 && (lane == kChannelBlock - 1 || o + 1 == w.layout.out_c)) {
      head.segment = bounds.Segment();
      bounds = LaneBounds(Steps(w), header.input_range);
    }
  });
}
}  // namespace

void WinogradNarrowPack(const ConvQ8Weights& w, void* packed) { Pack(w, 0, packed); }
void WinogradDot8Pack(const ConvQ8Weights& w, void* packed) { Pack(w, 1, packed); }

size_t WinogradNarrowWorkspace(const ConvGeometry& g) {
  return WinogradWorkspaceOf(kWinogradNarrow, g);
}

}  // namespace requant::conv
