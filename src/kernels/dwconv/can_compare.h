#pragma once
// Decides where vector_narrow.cpp compares. The kernel and the planner must agree on it.
// Freestanding.
#include "kernels/dwconv/kernel.h"

namespace requant::dwconv {

/// Whether outputs have two codes, which comparing an accumulator with its channel's last_low
/// (NarrowRequantize) distinguishes. last_low is clamped to int16, so it must lie inside that
/// range.
inline bool CanCompare(const DwConvQ8Params* p) {
  const int32_t* last_low = p->requantize.narrow.last_low;
  const int32_t channels = p->geometry.out_c;
  if (last_low == nullptr || channels % 8 != 0) return false;
  bool inside = true;
  for (int32_t c = 0; c < channels; ++c) {
    inside = inside && last_low[c] > INT16_MIN && last_low[c] < INT16_MAX;
  }
  return inside;
}

}  // namespace requant::dwconv
