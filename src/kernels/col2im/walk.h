#pragma once
// Which products meet in an output pixel; freestanding, shared by the rows.
#include <stddef.h>

#include "kernels/col2im/kernel.h"

namespace requant::col2im {

/// Calls f(products of the tap: out_c / groups floats of group 0) for every tap that reaches output
/// pixel (oy, ox) of image n.
template <typename F>
static inline __attribute__((always_inline)) void ForEachTap(const Col2ImF32Params* p, int32_t n,
                                                             int32_t oy, int32_t ox, F f) {
  const ConvGeometry& g = p->geometry;
  const ptrdiff_t width = g.out_c / g.groups;
  const ptrdiff_t pixel = static_cast<ptrdiff_t>(g.kernel_h) * g.kernel_w * g.out_c;
  for (int32_t ky = 0; ky < g.kernel_h; ++ky) {
    const int32_t y = oy + g.pad_top - ky * g.dilation_h;
    if (y < 0 || y % g.stride_h != 0 || y / g.stride_h >= g.in_h) continue;
    for (int32_t kx = 0; kx < g.kernel_w; ++kx) {
      const int32_t x = ox + g.pad_left - kx * g.dilation_w;
      if (x < 0 || x % g.stride_w != 0 || x / g.stride_w >= g.in_w) continue;
      const ptrdiff_t at =
          (static_cast<ptrdiff_t>(n) * g.in_h + y / g.stride_h) * g.in_w + x / g.stride_w;
      f(p->products + at * pixel + (static_cast<ptrdiff_t>(ky) * g.kernel_w + kx) * width);
    }
  }
}

}  // namespace requant::col2im
