// The normative depthwise convolutions: plain loops in the order of the definition.
#include "kernels/dwconv/kernel.h"

#include <cstddef>

namespace requant {
namespace {

/// Calls visit(tap, input pixel's first element) for the taps of output pixel `row` inside the
/// image.
template <typename Visit>
void ForEachTap(const ConvGeometry& g, int32_t row, Visit visit) {
  const int32_t ox = row % g.out_w;
  const int32_t oy = (row / g.out_w) % g.out_h;
  const int32_t image = row / (g.out_w * g.out_h);
  for (int32_t ky = 0; ky < g.kernel_h; ++ky) {
    const int32_t y = oy * g.stride_h - g.pad_top + ky * g.dilation_h;
    if (y < 0 || y >= g.in_h) continue;
    for (int32_t kx = 0; kx < g.kernel_w; ++kx) {
      const int32_t x = ox * g.stride_w - g.pad_left + kx * g.dilation_w;
      if (x < 0 || x >= g.in_w) continue;
      visit(ky * g.kernel_w + kx,
            static_cast<ptrdiff_t>((image * g.in_h + y) * g.in_w + x) * g.input_stride);
    }
  }
}

template <typename Input>
void DwConvQ8(const DwConvQ8Params& p) {
  const ConvGeometry& g = p.geometry;
  const Input* input = static_cast<const Input*>(p.input);
  const int32_t* bias = static_cast<const int32_t*>(p.weights);
  const int16_t* weights = reinterpret_cast<const int16_t*>(bias + g.out_c);
  const ptrdiff_t taps = static_cast<ptrdiff_t>(g.kernel_h) * g.kernel_w;
  for (int32_t row = p.row_begin; row < p.row_end; ++row) {
    for (int32_t c = 0; c < g.out_c; ++c) {
      // unsigned addition wraps without being undefined
      uint32_t sum = static_cast<uint32_t>(bias[c]);
      ForEachTap(g, row, [&](int32_t tap, ptrdiff_t pixel) {
        sum += static_cast<uint32_t>((input[pixel + c] - p.input_zero_point) *
                                     weights[c * taps + tap]);
      });
      const int32_t value = ApplyRequantize(static_cast<int32_t>(sum), p.requantize, c);
      static_cast<uint8_t*>(p.output)[static_cast<ptrdiff_t>(row) * g.output_stride + c] =
          static_cast<uint8_t>(value);  // reads an int8 by its bits, too
    }
  }
}

}  // namespace

void rq_dwconv_f32_scalar(const DwConvF32Params* p) {
  const ConvGeometry& g = p->geometry;
  const float* bias = static_cast<const float*>(p->weights);
  const float* weights = bias + g.out_c;
  const ptrdiff_t taps = static_cast<ptrdiff_t>(g.kernel_h) * g.kernel_w;
  for (int32_t row = p->row_begin; row < p->row_end; ++row) {
    for (int32_t c = 0; c < g.out_c; ++c) {
      float sum = bias[c];
      ForEachTap(g, row, [&](int32_t tap, ptrdiff_t pixel) {
        sum += p->input[pixel + c] * weights[c * taps + tap];
      });
      if (sum < p->lo) sum = p->lo;  // a NaN passes both comparisons
      if (sum > p->hi) sum = p->hi;
      p->output[static_cast<ptrdiff_t>(row) * g.output_stride + c] = sum;
    }
  }
}

void rq_dwconv_q8_scalar(const DwConvQ8Params* p) {
  if (p->input_signed) {
    DwConvQ8<int8_t>(*p);
  } else {
    DwConvQ8<uint8_t>(*p);
  }
}

}  // namespace requant
