#include "kernels/dwconv/pack.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/checked_math.h"
#include "kernels/dwconv/blocking.h"
#include "kernels/dwconv/pack_walk.h"
#include "kernels/geometry_check.h"
#include "kernels/variant/missing.h"

namespace requant {
namespace dwconv {
namespace {

/// Bytes of the accumulators and of `slots` slots of converted columns, four bytes a channel.
size_t RingWorkspace(const ConvGeometry& g, int32_t slots) {
  const size_t column = static_cast<size_t>(ChannelGroup(g, slots)) * 4;
  const size_t slot = CheckedMul(static_cast<size_t>(PaddedWidth(g)), column);
  return CheckedAdd(kStripElements * 4, CheckedMul(slot, static_cast<size_t>(slots)));
}

}  // namespace

size_t NoWorkspace(const ConvGeometry& g) {
  CheckConvGeometry(g);
  return 0;
}

size_t ScalarF32PackedSize(const DwConvF32Weights& w) {
  return CheckedMul(CheckedMul(static_cast<size_t>(w.layout.channels), Taps(w.layout) + 1), 4);
}

void ScalarF32Pack(const DwConvF32Weights& w, void* packed) {
  float* bias = static_cast<float*>(packed);
  float* out = bias + w.layout.channels;
  for (int32_t c = 0; c < w.layout.channels; ++c) {
    bias[c] = w.bias == nullptr ? 0.0f : w.bias[c];
    ForEachTap(w.layout, c, [&](int32_t, int32_t, int64_t offset) { *out++ = w.data[offset]; });
  }
}

size_t ScalarQ8PackedSize(const DwConvQ8Weights& w) {
  return CheckedMul(static_cast<size_t>(w.layout.channels),
                    CheckedAdd(CheckedMul(Taps(w.layout), 2), 4));
}

void ScalarQ8Pack(const DwConvQ8Weights& w, void* packed) {
  int32_t* bias = static_cast<int32_t*>(packed);
  int16_t* out = reinterpret_cast<int16_t*>(bias + w.layout.channels);
  for (int32_t c = 0; c < w.layout.channels; ++c) {
    bias[c] = w.bias == nullptr ? 0 : w.bias[c];
    ForEachTap(w.layout, c, [&](int32_t, int32_t, int64_t offset) {
      *out++ = static_cast<int16_t>(WeightAt(w, c, offset));
    });
  }
}

size_t VectorF32PackedSize(const DwConvF32Weights& w) {
  return CheckedMul(Quads(w.layout), CheckedMul(Taps(w.layout) + 1, kQuad * 4));
}

void VectorF32Pack(const DwConvF32Weights& w, void* packed) {
  std::memset(packed, 0, VectorF32PackedSize(w));
  const size_t quad_floats = (Taps(w.layout) + 1) * kQuad;
  for (int32_t c = 0; c < w.layout.channels; ++c) {
    float* out =
        static_cast<float*>(packed) + static_cast<size_t>(c / kQuad) * quad_floats + c % kQuad;
    if (w.bias != nullptr) *out = w.bias[c];
    ForEachTap(w.layout, c, [&](int32_t, int32_t, int64_t offset) {
      out += kQuad;
      *out = w.data[offset];
    });
  }
}

size_t VectorF32Workspace(const ConvGeometry& g) {
  CheckConvGeometry(g);
  return 16;
}

size_t VectorQ8PackedSize(const DwConvQ8Weights& w) {
  CheckedMul(Taps(w.layout), 64);  // throws unless a quad's size fits
  return CheckedMul(Quads(w.layout),
                    static_cast<size_t>(Q8QuadBytes(w.layout.kernel_h, w.layout.kernel_w)));
}

void VectorQ8Pack(const DwConvQ8Weights& w, void* packed) {
  const DwConvWeightsLayout& l = w.layout;
  std::memset(packed, 0, VectorQ8PackedSize(w));
  const size_t quad_bytes = static_cast<size_t>(Q8QuadBytes(l.kernel_h, l.kernel_w));
  for (int32_t c = 0; c < l.channels; ++c) {
    uint8_t* quad = static_cast<uint8_t*>(packed) + static_cast<size_t>(c / kQuad) * quad_bytes;
    const int32_t lane = c % kQuad;
    if (w.bias != nullptr) std::memcpy(quad + lane * 4, &w.bias[c], 4);
    int16_t* even = reinterpret_cast<int16_t*>(quad + kQuad * 4);
    int16_t* odd = even + PairElements(EvenPairs(l.kernel_h), l.kernel_w);
    ForEachTap(l, c, [&](int32_t y, int32_t x, int64_t offset) {
      const int16_t value = static_cast<int16_t>(WeightAt(w, c, offset));
      const auto at = [&](int32_t row) {
        return ((row / 2 * l.kernel_w + x) * kQuad + lane) * 2 + row % 2;
      };
      even[at(y)] = value;
      odd[at(y + 1)] = value;
    });
  }
}

size_t VectorQ8Workspace(const ConvGeometry& g) {
  CheckConvGeometry(g);
  return RingWorkspace(g, OddPairs(g.kernel_h));
}

bool Dot8Takes(const DwConvQ8Weights& w, int32_t form) {
  const int32_t least = LeastDot8Weight(form);
  bool narrow = true;
  for (int32_t c = 0; c < w.layout.channels; ++c) {
    ForEachTap(w.layout, c, [&](int32_t, int32_t, int64_t offset) {
      const int32_t value = WeightAt(w, c, offset);
      narrow = narrow && value >= least && value <= 127;
    });
  }
  return narrow;
}
bool Dot8Supports(const DwConvQ8Weights& w) { return Dot8Takes(w, Dot8Form()); }

size_t Dot8PackedSize(const DwConvQ8Weights& w) {
  CheckedMul(Taps(w.layout), 1024);  // throws unless a block's size fits
  return CheckedMul(Quads(w.layout) / 2,
                    static_cast<size_t>(Dot8BlockBytes(w.layout.kernel_h, w.layout.kernel_w)));
}

namespace {

/// The middle of the range of a channel's weights less their zero point; 0 if they fit int8 without
/// it.
int32_t MiddleOf(const DwConvQ8Weights& w, int32_t c) {
  int32_t lo = 0;
  int32_t hi = 0;
  ForEachTap(w.layout, c, [&](int32_t, int32_t, int64_t offset) {
    const int32_t value = WeightAt(w, c, offset);
    lo = std::min(lo, value);
    hi = std::max(hi, value);
  });
  return lo >= -127 && hi <= 127 ? 0 : (lo + hi + 1) >> 1;
}

void PackBytes(const DwConvQ8Weights& w, bool affine, void* packed) {
  const DwConvWeightsLayout& l = w.layout;
  std::memset(packed, 0, Dot8PackedSize(w));
  const size_t block_bytes = static_cast<size_t>(Dot8BlockBytes(l.kernel_h, l.kernel_w));
  for (int32_t c = 0; c < l.channels; ++c) {
    uint8_t* block = static_cast<uint8_t*>(packed) + static_cast<size_t>(c / 8) * block_bytes;
    const int32_t lane = c % 8;
    const int32_t middle = affine ? MiddleOf(w, c) : 0;
    int32_t sum = 0;
    ForEachTap(l, c, [&](int32_t y, int32_t x, int64_t offset) {
      const int32_t weight = WeightAt(w, c, offset);
      const int32_t value = weight - middle;
      sum += weight;
      for (int32_t phase = 0; phase < 4; ++phase) {
        const int32_t row = y + phase;
        block[kDot8HeaderBytes + PhaseOffset(l.kernel_h, l.kernel_w, phase) +
              ((row / 4 * l.kernel_w + x) * 8 + lane) * 4 + row % 4] = static_cast<uint8_t>(value);
      }
    });
    if (w.bias != nullptr) std::memcpy(block + lane * 4, &w.bias[c], 4);
    std::memcpy(block + 32 + lane * 4, &sum, 4);
    std::memcpy(block + 64 + lane * 4, &middle, 4);
  }
}

}  // namespace

void Dot8Pack(const DwConvQ8Weights& w, void* packed) { PackBytes(w, false, packed); }

bool Dot8AffineSupports(const DwConvQ8Weights& w) {
  // The sums of windows cost more than whole bytes gain: blocks with middles take up to 1.7 of the
  // time of pairs of 16 bits, other blocks 0.7.
  constexpr int32_t kMostBlocks = 4;  // one of so many
  if (LeastDot8Weight(Dot8Form()) != -128) return false;
  int32_t affine = 0;
  for (int32_t block = 0; block < w.layout.channels; block += 8) {
    int32_t middles = 0;
    for (int32_t c = block; c < std::min(block + 8, w.layout.channels); ++c) {
      middles |= MiddleOf(w, c);
    }
    affine += middles != 0 ? 1 : 0;
  }
  return affine * kMostBlocks * 8 <= w.layout.channels;
}
void Dot8AffinePack(const DwConvQ8Weights& w, void* packed) { PackBytes(w, true, packed); }

size_t Dot8Workspace(const ConvGeometry& g) {
  CheckConvGeometry(g);
  return RingWorkspace(g, Quartets(g.kernel_h, 3));
}

}  // namespace dwconv

void DwConvQ8AccumulatorBounds(const DwConvQ8Weights& w, int32_t max_abs_input, int64_t* bounds) {
  for (int32_t c = 0; c < w.layout.channels; ++c) {
    int64_t sum = 0;
    dwconv::ForEachTap(w.layout, c, [&](int32_t, int32_t, int64_t offset) {
      sum += std::abs(dwconv::WeightAt(w, c, offset));
    });
    bounds[c] = sum * max_abs_input;
    if (w.bias != nullptr) bounds[c] += std::abs(static_cast<int64_t>(w.bias[c]));
  }
}

}  // namespace requant
