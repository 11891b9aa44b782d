#pragma once
// Applies a function of four floats to all elements. Freestanding.
#include "base/simd.h"
#include "kernels/elementwise/kernel.h"
#include "kernels/lanes_simd.h"

namespace requant {

/// out[i] = function(in[i]), four elements at a time.
template <typename Function>
RQ_INLINE void Map(const UnaryF32Params* p, Function function) {
  for (size_t i = 0; i < p->n; i += 4) {
    const int32_t left = p->n - i < 4 ? static_cast<int32_t>(p->n - i) : 4;
    simd::StorePartial(p->out + i, function(simd::LoadPartial(p->in + i, left)), left);
  }
}

/// out[i] = function(lanes, in[i]), for functions written over VectorLanes.
template <typename Function>
RQ_INLINE void MapLanes(const UnaryF32Params* p, Function function) {
  const VectorLanes lanes(p->n);
  Map(
      p, [&](v128_t x) __attribute__((always_inline)) { return function(lanes, x); });
}

}  // namespace requant
