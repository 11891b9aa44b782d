// Resizes four channels at a time with the scalar row's arithmetic: plain multiplies and adds.
#include "base/simd.h"
#include "kernels/resize/kernel.h"

using namespace requant;

namespace {

RQ_INLINE v128_t Mix(v128_t a, v128_t a_weight, v128_t b, v128_t b_weight) {
  return wasm_f32x4_add(wasm_f32x4_mul(a, a_weight), wasm_f32x4_mul(b, b_weight));
}

}  // namespace

void rq_resize_linear_f32(const ResizeLinearF32Params* p) {
  const size_t end = static_cast<size_t>(p->row_end);
  float* out = p->out + static_cast<size_t>(p->row_begin) * p->out_w * p->channels;
  for (size_t row = static_cast<size_t>(p->row_begin); row < end; ++row) {
    const float* image = p->in + row / p->out_h * p->in_h * p->in_w * p->channels;
    const LinearTap& v = p->ys[row % p->out_h];
    const float* top = image + static_cast<size_t>(v.first) * p->in_w * p->channels;
    const float* bottom = image + static_cast<size_t>(v.second) * p->in_w * p->channels;
    const v128_t wy0 = wasm_f32x4_splat(v.first_weight);
    const v128_t wy1 = wasm_f32x4_splat(v.second_weight);
    for (size_t x = 0; x < p->out_w; ++x, out += p->channels) {
      const LinearTap& h = p->xs[x];
      const size_t left = static_cast<size_t>(h.first) * p->channels;
      const size_t right = static_cast<size_t>(h.second) * p->channels;
      const v128_t wx0 = wasm_f32x4_splat(h.first_weight);
      const v128_t wx1 = wasm_f32x4_splat(h.second_weight);
      for (size_t c = 0; c < p->channels; c += 4) {
        const int32_t count = p->channels - c < 4 ? static_cast<int32_t>(p->channels - c) : 4;
        const v128_t above = Mix(simd::LoadPartial(top + left + c, count), wx0,
                                 simd::LoadPartial(top + right + c, count), wx1);
        const v128_t below = Mix(simd::LoadPartial(bottom + left + c, count), wx0,
                                 simd::LoadPartial(bottom + right + c, count), wx1);
        simd::StorePartial(out + c, Mix(above, wy0, below, wy1), count);
      }
    }
  }
}
