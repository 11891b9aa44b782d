// Four lanes with the scalar row's arithmetic, operation by operation.
#include "base/simd.h"
#include "kernels/layer_norm/kernel.h"

namespace requant {
namespace {

RQ_INLINE float Reduce(v128_t lanes) {
  return (wasm_f32x4_extract_lane(lanes, 0) + wasm_f32x4_extract_lane(lanes, 2)) +
         (wasm_f32x4_extract_lane(lanes, 1) + wasm_f32x4_extract_lane(lanes, 3));
}

/// Clears the lanes from n on, which then add nothing to a sum.
RQ_INLINE v128_t FirstLanes(v128_t x, int32_t n) {
  const v128_t lane = wasm_i32x4_make(0, 1, 2, 3);
  return wasm_v128_and(x, wasm_i32x4_lt(lane, wasm_i32x4_splat(n)));
}

RQ_INLINE v128_t Difference(v128_t x, v128_t mean) { return wasm_f32x4_sub(x, mean); }

template <bool kBias>
RQ_INLINE v128_t Apply(v128_t x, v128_t mean, v128_t inverse, v128_t scale, v128_t bias) {
  const v128_t scaled = wasm_f32x4_mul(wasm_f32x4_mul(Difference(x, mean), inverse), scale);
  return kBias ? wasm_f32x4_add(scaled, bias) : scaled;
}

template <bool kBias>
RQ_INLINE void Rows(const LayerNormF32Params* p) {
  const size_t whole = p->cols / 4 * 4;
  const int32_t left = static_cast<int32_t>(p->cols - whole);
  const float count = static_cast<float>(p->cols);
  const v128_t zero = wasm_f32x4_splat(0.0f);
  for (size_t r = 0; r < p->rows; ++r) {
    const float* in = p->in + r * p->cols;
    float* out = p->out + r * p->cols;
    v128_t lanes = zero, mean = zero;
    if (p->center != 0) {
      for (size_t i = 0; i < whole; i += 4) lanes = wasm_f32x4_add(lanes, wasm_v128_load(in + i));
      if (left > 0) lanes = wasm_f32x4_add(lanes, simd::LoadPartial(in + whole, left));
      mean = wasm_f32x4_splat(Reduce(lanes) / count);
      lanes = zero;
    }
    for (size_t i = 0; i < whole; i += 4) {
      const v128_t d = Difference(wasm_v128_load(in + i), mean);
      lanes = wasm_f32x4_add(lanes, wasm_f32x4_mul(d, d));
    }
    if (left > 0) {
      const v128_t d = Difference(simd::LoadPartial(in + whole, left), mean);
      lanes = wasm_f32x4_add(lanes, FirstLanes(wasm_f32x4_mul(d, d), left));
    }
    const float variance = Reduce(lanes) / count + p->epsilon;
    const v128_t inverse = wasm_f32x4_splat(1.0f / __builtin_sqrtf(variance));
    for (size_t i = 0; i < whole; i += 4) {
      wasm_v128_store(
          out + i, Apply<kBias>(wasm_v128_load(in + i), mean, inverse, wasm_v128_load(p->scale + i),
                                kBias ? wasm_v128_load(p->bias + i) : zero));
    }
    if (left > 0) {
      const v128_t y = Apply<kBias>(simd::LoadPartial(in + whole, left), mean, inverse,
                                    simd::LoadPartial(p->scale + whole, left),
                                    kBias ? simd::LoadPartial(p->bias + whole, left) : zero);
      simd::StorePartial(out + whole, y, left);
    }
  }
}

}  // namespace
}  // namespace requant

using namespace requant;

void rq_layer_norm_f32(const LayerNormF32Params* p) {
  if (p->bias == nullptr) {
    Rows<false>(p);
  } else {
    Rows<true>(p);
  }
}
