#pragma once
// The float32 form of RequantizeParams (numeric/requantize.h). Vector code, freestanding.
#include "base/simd.h"

namespace requant {

/// Codes, less the least and not clamped yet, of four accumulators. Fused or not: the form gives
/// the same ones.
RQ_INLINE v128_t CodesF32(v128_t acc, v128_t scale, v128_t bias) {
  return simd::TruncInRange(simd::MulAddF32<true>(wasm_f32x4_convert_i32x4(acc), scale, bias));
}

}  // namespace requant
