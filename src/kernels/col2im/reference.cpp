// The scalar row.
#include "kernels/col2im/table.h"
#include "kernels/col2im/walk.h"

namespace requant {

void Col2ImF32Reference(const Col2ImF32Params* p) {
  const ConvGeometry& g = p->geometry;
  const int32_t width = g.out_c / g.groups;
  const ptrdiff_t group = static_cast<ptrdiff_t>(g.kernel_h) * g.kernel_w * width;
  for (int32_t row = p->row_begin; row < p->row_end; ++row) {
    const int32_t n = row / (g.out_h * g.out_w);
    const int32_t oy = row / g.out_w % g.out_h;
    float* out = p->output + static_cast<ptrdiff_t>(row) * g.output_stride;
    for (int32_t c = 0; c < g.out_c; ++c) {
      float sum = p->bias == nullptr ? 0.0f : p->bias[c];
      const ptrdiff_t at = c / width * group + c % width;
      col2im::ForEachTap(p, n, oy, row % g.out_w,
                         [&](const float* products) { sum += products[at]; });
      // NaN fails both comparisons and passes through.
      sum = sum < p->lo ? p->lo : sum;
      out[c] = p->hi < sum ? p->hi : sum;
    }
  }
}

}  // namespace requant
