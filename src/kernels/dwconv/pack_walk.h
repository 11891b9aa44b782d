#pragma once
// The walks of depthwise packing functions over weights. Hosted C++.
#include <cstddef>
#include <cstdint>

#include "base/checked_math.h"
#include "kernels/dwconv/blocking.h"
#include "kernels/dwconv/table.h"

namespace requant::dwconv {

inline size_t Taps(const DwConvWeightsLayout& l) {
  return CheckedMul(static_cast<size_t>(l.kernel_h), static_cast<size_t>(l.kernel_w));
}

/// Blocks of four channels; an even number, because the 8-bit kernel requantizes eight at a time.
inline size_t Quads(const DwConvWeightsLayout& l) {
  return CheckedAlign(static_cast<size_t>(l.channels), 8) / kQuad;
}

/// Calls f(ky, kx, offset) for the weights of channel c.
template <typename F>
void ForEachTap(const DwConvWeightsLayout& l, int32_t c, F f) {
  for (int32_t y = 0; y < l.kernel_h; ++y) {
    for (int32_t x = 0; x < l.kernel_w; ++x) {
      f(y, x, c * l.stride_c + y * l.stride_h + x * l.stride_w);
    }
  }
}

inline int32_t WeightAt(const DwConvQ8Weights& w, int32_t c, int64_t offset) {
  const int32_t value = w.is_signed ? static_cast<const int8_t*>(w.data)[offset]
                                    : static_cast<const uint8_t*>(w.data)[offset];
  return w.zero_points == nullptr ? value : value - w.zero_points[c];
}

}  // namespace requant::dwconv
