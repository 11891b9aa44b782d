// Packing for vector_winograd_pairs.cpp, and the shapes for which Winograd's tiles are faster.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "kernels/conv/pack.h"
#include "kernels/conv/pack_walk.h"
#include "kernels/conv/winograd/winograd.h"
#include "kernels/geometry_check.h"
#include "kernels/variant/missing.h"

namespace requant::conv {
namespace {

constexpr size_t kPair = kWinogradGroup / kWinogradPairs.operand;

size_t BlockBytes(const ConvQ8Weights& w) {
  const size_t steps = static_cast<size_t>(w.layout.in_c_per_group) / kPair;
  return CheckedAdd(sizeof(WinogradPairsBlock), CheckedMul(steps, size_t{kWinogradTaps} * 16));
}

}  // namespace

bool WinogradFits(const WinogradShape& shape, const ConvQ8Weights& w, const ConvGeometry& g,
                  int32_t most_weight, int32_t most_input) {
  if (g.kernel_h != 3 || g.kernel_w != 3 || g.stride_h != shape.stride ||
      g.stride_w != shape.stride || g.dilation_h != 1 || g.dilation_w != 1 || g.groups != 1 ||
      g.in_c % (kWinogradVector / shape.operand) != 0) {
    return false;
  }
  const int64_t most = int64_t{most_weight} * most_input * kWinogradTaps * g.in_c;
  for (int32_t o = 0; w.bias != nullptr && o < w.layout.out_c; ++o) {
    if (most + std::abs(int64_t{w.bias[o]}) > shape.MostOutput()) return false;
  }
  return most <= shape.MostOutput();
}

namespace {
bool PairsFit(const WinogradShape& shape, const ConvQ8Weights& w, const ConvGeometry& g) {
  if (!WinogradFits(shape, w, g, 128, 255)) return false;
  const WeightRange range = RangeOf(w, 255);
  return range.lo >= -128 && range.hi <= 127;
}
}  // namespace

bool WinogradPairsSupports(const ConvQ8Weights& w, const ConvGeometry& g) {
  return PairsFit(kWinogradPairs, w, g);
}
bool WinogradStridedPairsSupports(const ConvQ8Weights& w, const ConvGeometry& g) {
  return PairsFit(kWinogradStridedPairs, w, g);
}

bool WinogradFills(const WinogradShape& shape, const ConvGeometry& g, int32_t tiles,
                   int32_t percent) {
  const int64_t all = WinogradTiles(shape, g), outputs = all * shape.out_h * shape.out_w;
  return all >= tiles && outputs * 100 <= int64_t{ConvRows(g)} * percent;
}

// Speed against pairs, and against 7 bits, on Zen 5 (8 to 256 channels):
//
//   output            pairs         7 bits
//   14 x 14, larger   1.9 to 2.1    1.65 to 2.0
//   8 x 8             1.6 to 1.9    1.5 to 1.7
//   7 x 7             1.4           1.1 to 1.2
//   5 x 5             1.1           0.9
//   4 x 4             1.2 to 1.4    1.1 to 1.2
//   3 x 3, 2 x 2      0.6 to 0.9    0.5 to 0.75
bool WinogradPairsIsPreferred(const ConvQ8Weights&, const ConvGeometry& g) {
  return WinogradFills(kWinogradPairs, g, 4, 134);
}

// Speed against pairs, and against 7 bits, on Zen 5 (16 to 512 channels):
//
//   output width      pairs         7 bits
//   12, 14, wider     1.05 to 1.37  1.05 to 1.37   (16 channels against pairs: 1.02 to 1.18)
//   11, 13            1.0 to 1.14   0.7 to 1.0
//   8, 10             1.1 to 1.3    1.05 to 1.08
//   6                 1.04 to 1.17  0.7 to 1.0
//   4, 7, 9           0.9 to 1.1    0.7 to 1.0
//   5                 0.8 to 0.9    0.7 to 1.0
bool WinogradStridedPairsIsPreferred(const ConvQ8Weights& w, const ConvGeometry& g) {
  return Dot7Supports(w, g) ? WinogradFills(kWinogradStridedPairs, g, 16, 110)
                            : WinogradFills(kWinogradStridedPairs, g, 9, 120);
}

bool Winograd4x4PairsSupports(const ConvQ8Weights& w, const ConvGeometry& g) {
  if (!WinogradPairsSupports(w, g)) return false;
  if (WinogradFits(kWinograd4x4Pairs, w, g, 128, 255)) return true;
  if (w.dynamic) return false;
  std::vector<int64_t> bounds(static_cast<size_t>(w.layout.out_c));
  ConvQ8AccumulatorBounds(w, 255, bounds.data());
  return *std::max_element(bounds.begin(), bounds.end()) <= kWinograd4x4Pairs.MostOutput();
}

// Speed against tiles of 2 x 2 outputs, and against products of whole bytes, on Zen 5, by the
// number of channels:
//
//   output width      16            32            64            128
//   tiles of 2 x 2
//     below 7         0.83 to 1.0   0.83 to 1.0   0.83 to 1.0   0.83 to 1.0
//     7               0.94          1.27          1.32          1.39
//     8               1.08          1.2           1.26          1.38
//     9, 10           0.9           0.98          1.03          1.05
//     13              0.99          1.17          1.22          1.3
//     11, 12, 14 up   1.08 to 1.34  1.19 to 1.45  1.23 to 1.58  1.28 to 1.59
//   whole bytes
//     12, 16 up       0.8 to 1.0    1.0 to 1.15   1.1 to 1.34   1.15 to 1.4
//     14              0.75          0.9           1.0           1.08
//     narrower        less
bool Winograd4x4PairsIsPreferred(const ConvQ8Weights&, const ConvGeometry& g) {
  constexpr int32_t kFewChannels = 32;
  const int64_t tiles = WinogradTiles(kWinograd4x4Pairs, g);
  if (MissingDot8() == nullptr) {
    return g.in_c >= kFewChannels && WinogradFills(kWinograd4x4Pairs, g, 9, 115);
  }
  const int64_t small = int64_t{WinogradTiles(kWinogradPairs, g)} * kWinogradPairs.Points();
  return tiles >= (g.in_c < kFewChannels ? 9 : 4) &&
         tiles * kWinograd4x4Pairs.Points() * 4 <= small * 3;
}

size_t WinogradPairsPackedSize(const ConvQ8Weights& w) {
  return CheckedMul(Blocks(w.layout), BlockBytes(w));
}

void WinogradPairsPack(const ConvQ8Weights& w, void* packed) {
  std::memset(packed, 0, WinogradPairsPackedSize(w));
  const size_t depth = Depth(w.layout), channels = depth / kWinogradTaps;
  ForEachChannel(w.layout, [&](size_t block, int32_t lane, int32_t o) {
    uint8_t* out = static_cast<uint8_t*>(packed) + block * BlockBytes(w);
    if (w.bias != nullptr) std::memcpy(out + lane * 4, &w.bias[o], 4);
    out += sizeof(WinogradPairsBlock) + static_cast<size_t>(lane) * kPair;
    ForEachWeight(w.layout, o, [&](size_t k, int64_t offset) {
      const size_t tap = k / channels, c = k % channels;
      out[(c / kPair * kWinogradTaps + tap) * 16 + c % kPair] =
          static_cast<uint8_t>(WeightAt(w, o, offset));
    });
  });
}

size_t WinogradWorkspaceOf(const WinogradShape& shape, const ConvGeometry& g) {
  CheckConvGeometry(g);
  const WinogradPartBytes bytes = WinogradParts(shape, g);
  return CheckedAdd(static_cast<size_t>(bytes.starts + bytes.weights + bytes.products),
                    static_cast<size_t>(bytes.panel));
}
size_t WinogradPairsWorkspace(const ConvGeometry& g) {
  return WinogradWorkspaceOf(kWinogradPairs, g);
}
size_t WinogradStridedPairsWorkspace(const ConvGeometry& g) {
  return WinogradWorkspaceOf(kWinogradStridedPairs, g);
}
size_t Winograd4x4PairsWorkspace(const ConvGeometry& g) {
  return WinogradWorkspaceOf(kWinograd4x4Pairs, g);
}

}  // namespace requant::conv
