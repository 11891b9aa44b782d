#pragma once
// Packing of few-bit weights for Winograd's tiles (winograd_bytes.h). Hosted C++.
#include <array>
#include <cstring>

#include "kernels/conv/pack_walk.h"
#include "kernels/conv/winograd/winograd.h"

namespace requant::conv {

/// The nine taps of one input and one output channel, line by line.
using WinogradTaps = std::array<int32_t, kWinogradTaps>;

/// One point of G g G^T; `line` is the point's row of the vertical G, `column` that of the
/// horizontal one.
inline int32_t WinogradPoint(const int32_t (&line)[3], const int32_t (&column)[3],
                             const WinogradTaps& taps) {
  int32_t point = 0;
  for (size_t tap = 0; tap < taps.size(); ++tap) {
    point += line[tap / 3] * column[tap % 3] * taps[tap];
  }
  return point;
}

inline size_t WinogradSteps(const ConvQ8Weights& w) {
  return static_cast<size_t>(w.layout.in_c_per_group) / kWinogradGroup;
}

template <size_t kLines, size_t kColumns>
using WinogradBlockOf = WinogradNarrowBlock<static_cast<int32_t>(kLines* kColumns)>;

template <typename Block>
size_t WinogradBlockBytes(const ConvQ8Weights& w, size_t step_bytes) {
  return CheckedAdd(sizeof(Block), CheckedMul(WinogradSteps(w), step_bytes));
}

/// Fills the blocks at `packed`, which must be zeros. pack(step, lane, c, taps) writes one input
/// channel of an output channel to its step; end(block, lane, o) completes an output channel.
template <size_t kLines, size_t kColumns, typename Pack, typename End>
void PackWinogradBlocks(const ConvQ8Weights& w, size_t step_bytes, const int32_t (&g)[kLines][3],
                        const int32_t (&line_g)[kColumns][3], uint8_t* packed, Pack pack, End end) {
  using Block = WinogradBlockOf<kLines, kColumns>;
  const size_t block_bytes = WinogradBlockBytes<Block>(w, step_bytes);
  ForEachChannel(w.layout, [&](size_t index, int32_t lane, int32_t o) {
    uint8_t* out = packed + index * block_bytes;
    auto& block = *reinterpret_cast<Block*>(out);
    out += sizeof block;
    WinogradTaps sums{};
    for (size_t c = 0; c < WinogradSteps(w) * kWinogradGroup; ++c) {
      WinogradTaps taps;
      int64_t line = o * w.layout.stride_o + static_cast<int64_t>(c) * w.layout.stride_i;
      for (size_t tap = 0; tap < taps.size(); line += w.layout.stride_h) {
        for (int64_t x = 0; x < 3; ++x, ++tap) {
          taps[tap] = WeightAt(w, o, line + x * w.layout.stride_w);
          sums[tap] += taps[tap];
        }
      }
      pack(out + c / kWinogradGroup * step_bytes, lane, c, taps);
    }
    for (const int32_t sum : sums) block.sum[lane] += sum;
    // The transform is linear, so the transformed sums of taps are the sums of transformed taps.
    for (size_t point = 0; point < kLines * kColumns; ++point) {
      block.point_sum[point][lane] =
          WinogradPoint(g[point / kColumns], line_g[point % kColumns], sums);
    }
    block.bias[lane] = w.bias == nullptr ? 0 : w.bias[o];
    end(block, lane, o);
  });
}

}  // namespace requant::conv
