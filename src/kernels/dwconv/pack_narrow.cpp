// Packing for vector_narrow.cpp: checks which operands it takes, and how they are coded.
#include <algorithm>
#include <cstring>

#include "base/checked_math.h"
#include "kernels/dwconv/blocking.h"
#include "kernels/dwconv/pack.h"
#include "kernels/dwconv/pack_walk.h"

namespace requant::dwconv {
namespace {

/// The kernel converts inputs anyway, and codes that start at 0 are the smallest.
int32_t InputAdd(const DwConvQ8Weights& w) { return -w.input_lo; }

}  // namespace

bool NarrowSupports(const DwConvQ8Weights& w) {
  if (w.input_hi - w.input_lo > 127) return false;
  const int32_t least = w.input_lo + InputAdd(w), most = w.input_hi + InputAdd(w);
  for (int32_t c = 0; c < w.layout.channels; ++c) {
    // lo and hi are the range of the sum of all taps, whatever codes the inputs have.
    int64_t lo = 0, hi = 0;
    bool bytes = true;
    ForEachTap(w.layout, c, [&](int32_t, int32_t, int64_t offset) {
      const int32_t value = WeightAt(w, c, offset);
      bytes = bytes && value >= -128 && value <= 127;
      lo += std::min(value * least, value * most);
      hi += std::max(value * least, value * most);
    });
    if (!bytes || lo < INT16_MIN || hi > INT16_MAX) return false;
  }
  return true;
}

size_t NarrowPackedSize(const DwConvQ8Weights& w) {
  CheckedMul(Taps(w.layout), 1024);  // throws unless an octet's size fits
  return CheckedAdd(sizeof(NarrowHeader),
                    CheckedMul(Quads(w.layout) / 2, static_cast<size_t>(NarrowOctetBytes(
                                                        w.layout.kernel_h, w.layout.kernel_w))));
}

void NarrowPack(const DwConvQ8Weights& w, void* packed) {
  const DwConvWeightsLayout& l = w.layout;
  std::memset(packed, 0, NarrowPackedSize(w));
  const NarrowHeader header{InputAdd(w), {}};
  std::memcpy(packed, &header, sizeof header);
  uint8_t* first = static_cast<uint8_t*>(packed) + sizeof header;
  const size_t octet_bytes = static_cast<size_t>(NarrowOctetBytes(l.kernel_h, l.kernel_w));
  for (int32_t c = 0; c < l.channels; ++c) {
    uint8_t* octet = first + static_cast<size_t>(c / 8) * octet_bytes;
    const int32_t lane = c % 8;
    uint8_t* even = octet + 64;
    uint8_t* odd = even + static_cast<size_t>(EvenPairs(l.kernel_h)) * l.kernel_w * 16;
    int32_t sum = 0;
    ForEachTap(l, c, [&](int32_t y, int32_t x, int64_t offset) {
      const int32_t value = WeightAt(w, c, offset);
      sum += value;
      const auto at = [&](int32_t row) {
        return (row / 2 * l.kernel_w + x) * 16 + lane * 2 + row % 2;
      };
      even[at(y)] = static_cast<uint8_t>(value);
      odd[at(y + 1)] = static_cast<uint8_t>(value);
    });
    if (w.bias != nullptr) std::memcpy(octet + lane * 4, &w.bias[c], 4);
    std::memcpy(octet + 32 + lane * 4, &sum, 4);
  }
}

size_t NarrowWorkspace(const ConvGeometry& g) {
  return CheckedAdd(VectorQ8Workspace(g), kStripElements);
}

}  // namespace requant::dwconv
