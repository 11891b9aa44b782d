// Packs weights of 16 bits as float/halves.h says.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/checked_math.h"
#include "kernels/conv/float/halves.h"
#include "kernels/conv/pack.h"
#include "kernels/conv/pack_walk.h"
#include "kernels/geometry_check.h"

namespace requant::conv {
namespace {

/// The largest exponent field of float16 weights.
int32_t TopExponent(const HalfWeights& weights) {
  int32_t most = 0;
  for (size_t i = 0; i < weights.count; ++i) most = std::max(most, weights.data[i] & 0x7fff);
  return most >> 10;
}

/// A float16 times 2^up, which fits.
uint16_t Raised(uint16_t half, int32_t up) {
  const int32_t magnitude = half & 0x7fff;
  int32_t exponent = magnitude >> 10, mantissa = magnitude & 1023;
  if (magnitude == 0 || up == 0) return half;
  if (exponent > 0) return static_cast<uint16_t>(half + (up << 10));
  // A subnormal number: its leading one becomes the one that is not stored, if `up` suffices.
  for (; up > 0 && mantissa < 1024; --up) mantissa *= 2;
  exponent = mantissa < 1024 ? 0 : 1 + up;
  return static_cast<uint16_t>((half & 0x8000) | exponent << 10 | (mantissa & 1023));
}

/// The inverse of Raised.
uint16_t Lowered(uint16_t half, int32_t up) {
  const int32_t magnitude = half & 0x7fff;
  const int32_t exponent = magnitude >> 10, mantissa = magnitude & 1023;
  if (magnitude == 0 || up == 0) return half;
  if (exponent > up) return static_cast<uint16_t>(half - (up << 10));
  // It was a subnormal number, whose leading one is stored. One that still is has the exponent 0.
  const int32_t whole = exponent > 0 ? (mantissa | 1024) >> (up - exponent + 1) : mantissa >> up;
  return static_cast<uint16_t>((half & 0x8000) | whole);
}

}  // namespace

bool HalvesFit(const HalfWeights& weights) {
  const uint16_t exponent = weights.bfloat ? 0x7f80 : 0x7c00;
  bool finite = true;
  for (size_t i = 0; i < weights.count; ++i) {
    finite = finite && (weights.data[i] & exponent) != exponent;
  }
  return finite;
}

size_t HalvesF32PackedSize(const ConvF32Weights& w) {
  const size_t block = CheckedMul(CheckedAdd(CheckedMul(Depth(w.layout), 2), 4), kChannelBlock);
  return CheckedAdd(sizeof(HalvesHeader), CheckedMul(Blocks(w.layout), block));
}

void HalvesF32Pack(const ConvF32Weights& w, void* packed) {
  std::memset(packed, 0, HalvesF32PackedSize(w));
  const int32_t up = w.half.bfloat ? 0 : std::max(30 - TopExponent(w.half), 0);
  auto* header = static_cast<HalvesHeader*>(packed);
  header->shift = w.half.bfloat ? 16 : 13;
  header->mask = w.half.bfloat ? -65536 : static_cast<int32_t>(0x8fffe000);
  header->factor = w.half.bfloat ? 1 : std::ldexp(1.0F, 112 - up);
  uint8_t* first = reinterpret_cast<uint8_t*>(header + 1);
  const auto block_bytes =
      static_cast<size_t>(HalvesBlockBytes(static_cast<int32_t>(Depth(w.layout))));
  ForEachChannel(w.layout, [&](size_t block, int32_t lane, int32_t o) {
    auto* bias = reinterpret_cast<float*>(first + block * block_bytes);
    if (w.bias != nullptr) bias[lane] = w.bias[o];
    uint16_t* out = reinterpret_cast<uint16_t*>(bias + kChannelBlock) + lane;
    ForEachWeight(w.layout, o, [&](size_t k, int64_t offset) {
      out[k * kChannelBlock] = Raised(w.half.data[offset], up);
    });
  });
}

void HalvesF32Unpack(const ConvF32Weights& w, const void* packed, size_t, void* to) {
  const auto* header = static_cast<const HalvesHeader*>(packed);
  const int32_t up = w.half.bfloat ? 0 : 112 - std::ilogb(header->factor);
  const uint8_t* first = reinterpret_cast<const uint8_t*>(header + 1);
  const auto block_bytes =
      static_cast<size_t>(HalvesBlockBytes(static_cast<int32_t>(Depth(w.layout))));
  auto* out = static_cast<uint16_t*>(to);
  ForEachChannel(w.layout, [&](size_t block, int32_t lane, int32_t o) {
    const uint16_t* from = reinterpret_cast<const uint16_t*>(first + block * block_bytes +
                                                             kChannelBlock * sizeof(float)) +
                           lane;
    ForEachWeight(w.layout, o, [&](size_t k, int64_t offset) {
      out[offset] = Lowered(from[k * kChannelBlock], up);
    });
  });
}

size_t HalvesF32Workspace(const ConvGeometry& g) {
  CheckConvGeometry(g);
  const size_t row_bytes = CheckedMul(static_cast<size_t>(conv::Depth(g)), 4);
  const size_t block = CheckedMul(CheckedAdd(row_bytes, 4), kChannelBlock);
  if (IsPointwise(g)) return block;
  return CheckedAdd(block, CheckedMul(static_cast<size_t>(HalvesPanelRows(g)), row_bytes));
}

}  // namespace requant::conv
