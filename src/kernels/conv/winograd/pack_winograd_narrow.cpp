// Packing for vector_winograd_narrow.cpp: checks which operands and shapes its rows take, and lays
// out their weights.
#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/bitserial/pack.h"
#include "kernels/conv/pack.h"
#include "kernels/conv/winograd/pack_winograd.h"
#include "numeric/few_bits.h"

namespace requant::conv {
namespace {

/// Within these ranges transformed codes are at most 127, and so are transformed weights (with a
/// stride of 2 all weights of four bits qualify).
constexpr int32_t kMostInputRange = 31, kMostWeightRange = kFewBitsRange, kMostWeight = 14;

/// The G of both tiles, as the kernel multiplies weights by it in either direction.
constexpr size_t kLines = kWinogradNarrow.WeightLines();
struct Tile {
  int32_t stride, g[kLines][3];
};
constexpr Tile kTile2x2{1, {{2, 0, 0}, {1, 1, 1}, {1, -1, 1}, {0, 0, 2}}};
constexpr Tile kTileStrided{2, {{1, 0, 0}, {1, 0, 1}, {0, 0, 1}, {0, 1, 0}}};
static_assert(kWinogradStridedNarrow.WeightLines() == kLines);

using Block = WinogradBlockOf<kLines, kLines>;
constexpr size_t kStepBytes = size_t{kWinogradTaps} * 16;

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

// Speed against the kernels without tiles, on Zen 5 (16 to 512 channels), by the output's width:
//
//   against                     below 6     6           7           8           9 and wider
//   products of bytes           0.6 - 1.05  0.9 - 1.4   1.2         1.3 - 1.6   1.4 - 2.2
//   products of few bits        0.6 - 1.3   1.1 - 1.5   1.2 - 1.3   1.0 - 1.6   1.3 - 1.9
//   lookups of two planes:
//     tiles multiply bytes      0.4 - 0.9   1.1 - 1.7   0.9 - 1.0   1.1 - 1.3   1.1 - 1.6
//     tiles multiply few bits   0.5 - 0.8   unknown     0.8 - 0.9   0.8 - 1.1   0.9 - 1.3
//
// Against few bits, width 4 is 1.1 to 1.3 times as fast; against lookups of two planes by few bits,
// 128 channels and more are 1.1 to 1.3 times as fast. Lookups of one plane are always faster (0.4
// to 0.7).
bool WinogradDot8IsPreferred(const ConvQ8Weights& w, const ConvGeometry& g) {
  if (!WinogradFills(kWinogradNarrow, g, 9, 134)) return false;
  if (!bitserial::LookupSupports(w, g)) return true;
  return ConvQ8WeightBits(w) > 1 && WinogradFills(kWinogradNarrow, g, 9, 125);
}
bool WinogradNarrowIsPreferred(const ConvQ8Weights& w, const ConvGeometry& g) {
  constexpr int32_t kFewChannels = 128;
  if (!bitserial::LookupSupports(w, g)) return WinogradFills(kWinogradNarrow, g, 4, 134);
  return g.in_c >= kFewChannels && WinogradDot8IsPreferred(w, g);
}

// Speed against the kernels without tiles, on Zen 5, by the number of channels:
//
//   output width      32            64            128 and more
//   products of bytes
//     9 and less      0.7 to 1.1    0.7 to 1.1    0.7 to 1.1
//     10              1.05          1.1           1.16 to 1.2
//     11, 13          0.98 to 1.05  1.02 to 1.05  1.04 to 1.11
//     12, 14, wider   0.92 to 1.12  1.04 to 1.19  1.1 to 1.28
//   products of few bits
//     7 and less, 9   0.6 to 1.05   0.6 to 1.05   0.6 to 1.05
//     8               0.84          0.91          1.07 to 1.13
//     wider           0.8 to 0.96   0.92 to 1.08  1.01 to 1.23
//
// Lookups of two planes are faster (0.9 to 0.97).
bool WinogradStridedDot8IsPreferred(const ConvQ8Weights& w, const ConvGeometry& g) {
  constexpr int32_t kFewChannels = 64;
  return g.in_c >= kFewChannels && WinogradFills(kWinogradStridedNarrow, g, 25, 120) &&
         !bitserial::LookupSupports(w, g);
}
bool WinogradStridedNarrowIsPreferred(const ConvQ8Weights& w, const ConvGeometry& g) {
  constexpr int32_t kFewChannels = 128;
  return g.in_c >= kFewChannels && WinogradFills(kWinogradStridedNarrow, g, 16, 120) &&
         !bitserial::LookupSupports(w, g);
}

size_t WinogradNarrowPackedSize(const ConvQ8Weights& w) {
  return CheckedAdd(sizeof(WinogradNarrowHeader),
                    CheckedMul(Blocks(w.layout), WinogradBlockBytes<Block>(w, kStepBytes)));
}

namespace {
__attribute__((noinline)) void Pack(const Tile& tile, const ConvQ8Weights& w, int32_t dot8,
                                    void* packed) {
  const WeightRange range = RangeOf(w, kMostWeightRange);
  const WinogradNarrowHeader header{w.input_lo, w.input_hi - w.input_lo, range.lo, dot8};
  std::memset(packed, 0, WinogradNarrowPackedSize(w));
  std::memcpy(packed, &header, sizeof header);
  uint8_t* first = static_cast<uint8_t*>(packed) + sizeof header;
  std::vector<uint8_t> scratch(dot8 != 0 ? 0 : kWinogradSegmentScratch);
  PackWinogradBlocks(
      w, kStepBytes, tile.g, tile.g, first,
      [&](uint8_t* step, int32_t lane, size_t c, const WinogradTaps& taps) {
        uint8_t* to = step + static_cast<size_t>(lane % 4) * kWinogradGroup + c % kWinogradGroup;
        for (size_t tap = 0; tap < taps.size(); ++tap) {
          to[tap * 16] |= static_cast<uint8_t>((taps[tap] - range.lo) << (lane < 4 ? 0 : 4));
        }
      },
      [&](Block& block, int32_t lane, int32_t o) {
        if (dot8 != 0 || (lane != kChannelBlock - 1 && o + 1 != w.layout.out_c)) return;
        block.segment =
            rq_conv_winograd_segment(reinterpret_cast<const WinogradNarrowHeader*>(packed),
                                     tile.stride, reinterpret_cast<const uint8_t*>(&block + 1),
                                     static_cast<int32_t>(WinogradSteps(w)), scratch.data());
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
