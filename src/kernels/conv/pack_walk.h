#pragma once
// The walks of packing functions over weights. Hosted C++.
#include <cstddef>
#include <cstdint>

#include "base/checked_math.h"
#include "kernels/conv/blocking.h"
#include "kernels/conv/table.h"

namespace requant::conv {

/// Weights of one output channel.
inline size_t Depth(const ConvWeightsLayout& l) {
  return CheckedMul(CheckedMul(static_cast<size_t>(l.kernel_h), static_cast<size_t>(l.kernel_w)),
                    static_cast<size_t>(l.in_c_per_group));
}

/// Calls f(k, offset) for the weights of output channel o, in the order (ky, kx, input channel).
template <typename F>
void ForEachWeight(const ConvWeightsLayout& l, int32_t o, F f) {
  size_t k = 0;
  for (int32_t y = 0; y < l.kernel_h; ++y) {
    for (int32_t x = 0; x < l.kernel_w; ++x) {
      const int64_t base = o * l.stride_o + y * l.stride_h + x * l.stride_w;
      for (int32_t i = 0; i < l.in_c_per_group; ++i) f(k++, base + i * l.stride_i);
    }
  }
}

inline int32_t WeightAt(const ConvQ8Weights& w, int32_t o, int64_t offset) {
  const int32_t value = w.is_signed ? static_cast<const int8_t*>(w.data)[offset]
                                    : static_cast<const uint8_t*>(w.data)[offset];
  return w.zero_points == nullptr ? value : value - w.zero_points[o];
}

/// Whether the weights of an output channel are int8 without zero points and neighbors in memory,
/// in any order.
bool ArePlain(const ConvQ8Weights& weights);  // pack.cpp
/// The weights of output channel o, if ArePlain.
inline const int8_t* PlainWeights(const ConvQ8Weights& w, int32_t o) {
  return static_cast<const int8_t*>(w.data) + o * w.layout.stride_o;
}

/// Whether the weights have no zero points and are a matrix in memory, whose rows have one weight
/// of every output channel each, as those of MatMul.
inline bool AreRows(const ConvQ8Weights& w) {
  const ConvWeightsLayout& l = w.layout;
  return w.zero_points == nullptr && l.groups == 1 && l.kernel_h == 1 && l.kernel_w == 1 &&
         l.stride_o == 1 && !ArePlain(w);
}

/// Blocks of 8 output channels; each group is padded to whole blocks.
inline size_t Blocks(const ConvWeightsLayout& l) {
  const size_t group_out = static_cast<size_t>(l.out_c / l.groups);
  return CheckedMul(static_cast<size_t>(l.groups), (group_out + kChannelBlock - 1) / kChannelBlock);
}

/// Calls f(block, lane, o) for every output channel.
template <typename F>
void ForEachChannel(const ConvWeightsLayout& l, F f) {
  const int32_t group_out = l.out_c / l.groups;
  const size_t blocks = static_cast<size_t>((group_out + kChannelBlock - 1) / kChannelBlock);
  for (int32_t g = 0; g < l.groups; ++g) {
    for (int32_t i = 0; i < group_out; ++i) {
      f(g * blocks + static_cast<size_t>(i / kChannelBlock), i % kChannelBlock, g * group_out + i);
    }
  }
}

/// The range of (weight - zero point), which includes 0. RangeOf stops at the channel, or at the
/// row of a matrix, that makes the range wider than `enough`.
struct WeightRange {
  int32_t lo = 0, hi = 0;
};
WeightRange RangeOf(const ConvQ8Weights& weights, int32_t enough);  // pack.cpp

/// Whether some weights, less their zero points, are no int8.
bool NeedsWide(const ConvQ8Weights& weights);  // pack.cpp

/// Weights of one line of the window.
inline size_t LineRun(const ConvWeightsLayout& l) {
  return CheckedMul(static_cast<size_t>(l.kernel_w), static_cast<size_t>(l.in_c_per_group));
}

}  // namespace requant::conv
