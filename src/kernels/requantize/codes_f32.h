#pragma once
// The float32 form of RequantizeParams (numeric/requantize.h). Vector code, freestanding.
#include "base/simd.h"

namespace requant {

/// The codes of four accumulators, less the least code and not clamped yet. A fused multiply-add
/// gives the same codes as separate instructions, by the construction of RequantizeParams.
RQ_INLINE v128_t CodesF32(v128_t acc, v128_t scale, v128_t bias) {
  return simd::TruncInRange(simd::MulAddF32<true>(wasm_f32x4_convert_i32x4(acc), scale, bias));
}

}  // namespace requant
