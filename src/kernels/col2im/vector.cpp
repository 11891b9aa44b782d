// Four channels at a time, every one summed in the scalar row's order.
#include "base/simd.h"
#include "kernels/col2im/kernel.h"
#include "kernels/col2im/walk.h"

using namespace requant;

void rq_col2im_f32(const Col2ImF32Params* p) {
  const ConvGeometry& g = p->geometry;
  const int32_t width = g.out_c / g.groups;
  const ptrdiff_t group = static_cast<ptrdiff_t>(g.kernel_h) * g.kernel_w * width;
  const v128_t lo = wasm_f32x4_splat(p->lo);
  const v128_t hi = wasm_f32x4_splat(p->hi);
  for (int32_t row = p->row_begin; row < p->row_end; ++row) {
    const int32_t n = row / (g.out_h * g.out_w);
    const int32_t oy = row / g.out_w % g.out_h;
    float* out = p->output + static_cast<ptrdiff_t>(row) * g.output_stride;
    for (int32_t first = 0; first < g.out_c; first += width) {
      const ptrdiff_t base = first / width * group;
      for (int32_t c = 0; c < width; c += 4) {
        const int32_t left = width - c;
        v128_t sum = p->bias == nullptr ? wasm_f32x4_splat(0.0f)
                                        : simd::LoadPartial(p->bias + first + c, left);
        col2im::ForEachTap(p, n, oy, row % g.out_w, [&](const float* products) {
          sum = wasm_f32x4_add(sum, simd::LoadPartial(products + base + c, left));
        });
        simd::StorePartial(out + first + c, simd::ClampF32(sum, lo, hi), left);
      }
    }
  }
}
