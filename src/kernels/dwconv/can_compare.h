#pragma once
// What vector_narrow.cpp and the planner must agree on. Freestanding.
#include "kernels/dwconv/kernel.h"

namespace requant::dwconv {

/// Whether outputs are two codes that can be told by comparing an accumulator with what
/// NarrowRequantize has of its channel, which is clamped to int16: right for all within it.
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
