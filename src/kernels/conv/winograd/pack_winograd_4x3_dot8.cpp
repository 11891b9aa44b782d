// Packing for vector_winograd_4x3_dot8.cpp: checks which operands and shapes it takes, and lays out
// its weights.
#include <cstring>

#include "kernels/conv/pack.h"
#include "kernels/conv/winograd/pack_winograd.h"

namespace requant::conv {
namespace {

/// Within these ranges transformed codes and weights fit signed bytes, and a weight's code two
/// bits.
constexpr int32_t kMostInputRange = 4, kMostWeight = 2, kMostWeightRange = 3;

constexpr size_t kLines = kWinograd4x3Dot8.Lines(), kColumns = kWinograd4x3Dot8.Columns();
using Block = WinogradBlockOf<kLines, kColumns>;
/// G of the vertical and of the horizontal transform (winograd_tile_4x3.h).
constexpr int32_t kG[kLines][3] = {{6, 0, 0}, {2, 2, 2},  {2, -2, 2},
                                   {1, 2, 4}, {1, -2, 4}, {0, 0, 6}};
constexpr int32_t kLineG[kColumns][3] = {{3, 0, 0}, {3, 3, 3}, {1, -1, 1}, {1, 2, 4}, {0, 0, 6}};

constexpr size_t kStepBytes = size_t{3} * kChannelBlock * kWinogradGroup;

Winograd4x3Header HeaderOf(const ConvQ8Weights& w, int32_t least) {
  Winograd4x3Header header{};
  header.input_lo = w.input_lo;
  for (int32_t code = 0; code < 16; ++code) {
    const int32_t g0 = code % 4 + least, g2 = code / 4 + least, g1 = g0;
    const int32_t values[] = {6 * g0, 2 * (g0 + g2), g0 + 4 * g2, 6 * g2, 2 * g1};
    for (size_t i = 0; i < 5; ++i) header.tables[i][code] = static_cast<int8_t>(values[i]);
  }
  return header;
}

}  // namespace

bool Winograd4x3Dot8Supports(const ConvQ8Weights& w, const ConvGeometry& g) {
  return WinogradFitsFewBits(kWinograd4x3Dot8, w, g, kMostWeight, kMostWeightRange,
                             kMostInputRange);
}

// Speed against the best of tiles of 2 x 2 outputs and lookups, on Zen 5, by the number of
// channels:
//
//   output width      16            32            64            more
//   weights of two bits
//     below 7         0.8 to 0.9    0.8 to 0.9    0.8 to 0.9    0.8 to 0.9
//     7               0.7           0.83          0.92          1.04 to 1.18
//     8               0.95          1.05          1.13          1.2 to 1.29
//     10              0.8           0.87          0.93          0.99 to 1.05
//     13, 14          0.86 to 0.96  0.98 to 1.01  1.1           1.11 to 1.22
//     9, 11, 12, more 0.99 to 1.18  1.01 to 1.3   1.08 to 1.4   1.2 to 1.5
//   weights of one bit, which lookups take
//     20 and wider    1.55          1.15 to 1.2   0.97 to 1.04  1.05 to 1.11
//     smaller         0.9 to 1.4    0.8 to 1.1    0.6 to 1.0    0.6 to 1.0
//   weights and inputs of one bit, no bit planes
//     20 and wider    1.39          1.1           0.91 to 0.97  0.96 to 1.02
bool Winograd4x3Dot8IsPreferred(const ConvQ8Weights& w, const ConvGeometry& g) {
  constexpr int32_t kFewChannels = 64, kManyChannels = 128;
  if (ConvQ8WeightBits(w) == 1) {
    const bool planes = w.input_hi - w.input_lo == 1 && g.in_c >= kFewChannels;
    return !planes && WinogradFills(kWinograd4x3Dot8, g, 35, 110);
  }
  const int64_t products = int64_t{WinogradTiles(kWinograd4x3Dot8, g)} * kWinograd4x3Dot8.Points();
  const int64_t small = int64_t{WinogradTiles(kWinogradNarrow, g)} * kWinogradNarrow.Points();
  return WinogradFills(kWinograd4x3Dot8, g, 1, g.in_c < kManyChannels ? 145 : 150) &&
         products * 100 <= small * (g.in_c < kFewChannels ? 70 : 77);
}

size_t Winograd4x3Dot8PackedSize(const ConvQ8Weights& w) {
  return CheckedAdd(sizeof(Winograd4x3Header),
                    CheckedMul(Blocks(w.layout), WinogradBlockBytes<Block>(w, kStepBytes)));
}

void Winograd4x3Dot8Pack(const ConvQ8Weights& w, void* packed) {
  const int32_t least = RangeOf(w, kMostWeightRange).lo;
  const Winograd4x3Header header = HeaderOf(w, least);
  std::memset(packed, 0, Winograd4x3Dot8PackedSize(w));
  std::memcpy(packed, &header, sizeof header);
  uint8_t* first = static_cast<uint8_t*>(packed) + sizeof header;
  PackWinogradBlocks(
      w, kStepBytes, kG, kLineG, first,
      [least](uint8_t* step, int32_t lane, size_t c, const WinogradTaps& taps) {
        constexpr int32_t kShift[] = {0, 4, 2};
        uint8_t* to = step + static_cast<size_t>(lane) * kWinogradGroup + c % kWinogradGroup;
        for (size_t tap = 0; tap < taps.size(); ++tap) {
          to[tap % 3 * kChannelBlock * kWinogradGroup] |=
              static_cast<uint8_t>((taps[tap] - least) << kShift[tap / 3]);
        }
      },
      [](Block&, int32_t, int32_t) {});
}

size_t Winograd4x3Dot8Workspace(const ConvGeometry& g) {
  return WinogradWorkspaceOf(kWinograd4x3Dot8, g);
}

}  // namespace requant::conv
