#pragma once
// What the forms of Winograd's filtering share: vectors of four neighboring tiles. Freestanding.
#include "base/simd.h"
#include "gradient/gemm.h"

namespace requant::gradient {

RQ_INLINE v128_t Add(v128_t a, v128_t b) { return wasm_f32x4_add(a, b); }
RQ_INLINE v128_t Sub(v128_t a, v128_t b) { return wasm_f32x4_sub(a, b); }
RQ_INLINE v128_t Times(float factor, v128_t a) {
  return wasm_f32x4_mul(wasm_f32x4_splat(factor), a);
}

}  // namespace requant::gradient
