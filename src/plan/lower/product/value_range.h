// The range of floats that a step quantizes while it runs.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/simd.h"

namespace requant {

struct ValueRange {
  float lo = 0, hi = 0;  // of the values and 0; NaNs are ignored
  bool has_nan = false;
};

inline ValueRange RangeOfValues(const float* values, size_t count) {
  v128_t least[2] = {wasm_f32x4_splat(0), wasm_f32x4_splat(0)};
  v128_t largest[2] = {least[0], least[0]};
  v128_t is_nan = least[0];
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (size_t part = 0; part < 2; ++part) {
      // pmin(a, b) is b < a ? b : a, so `next` replaces the bound only if it is not a NaN.
      const v128_t next = wasm_v128_load(values + i + part * 4);
      is_nan = wasm_v128_or(is_nan, wasm_f32x4_ne(next, next));
      least[part] = wasm_f32x4_pmin(least[part], next);
      largest[part] = wasm_f32x4_pmax(largest[part], next);
    }
  }
  float lo[4], hi[4];
  wasm_v128_store(lo, wasm_f32x4_pmin(least[0], least[1]));
  wasm_v128_store(hi, wasm_f32x4_pmax(largest[0], largest[1]));
  ValueRange range{*std::min_element(lo, lo + 4), *std::max_element(hi, hi + 4),
                   wasm_v128_any_true(is_nan)};
  for (; i < count; ++i) {
    range.lo = std::min(range.lo, values[i]);
    range.hi = std::max(range.hi, values[i]);
    range.has_nan = range.has_nan || std::isnan(values[i]);
  }
  return range;
}

}  // namespace requant
