// The normative convolutions: plain loops in the order of the definition.
#include "kernels/conv/kernel.h"

#include <cstddef>

namespace requant {
namespace {

/// Calls visit(k, input index) for every weight k of output pixel `row` whose input lies inside the
/// image; k counts (ky, kx, channel) within the group.
template <typename Visit>
void ForEachInput(const ConvGeometry& g, int32_t row, int32_t group, Visit visit) {
  const int32_t channels = g.in_c / g.groups;
  const int32_t ox = row % g.out_w;
  const int32_t oy = (row / g.out_w) % g.out_h;
  const int32_t image = row / (g.out_w * g.out_h);
  for (int32_t ky = 0; ky < g.kernel_h; ++ky) {
    const int32_t y = oy * g.stride_h - g.pad_top + ky * g.dilation_h;
    if (y < 0 || y >= g.in_h) continue;
    for (int32_t kx = 0; kx < g.kernel_w; ++kx) {
      const int32_t x = ox * g.stride_w - g.pad_left + kx * g.dilation_w;
      if (x < 0 || x >= g.in_w) continue;
      const ptrdiff_t pixel =
          static_cast<ptrdiff_t>((image * g.in_h + y) * g.in_w + x) * g.input_stride +
          group * channels;
      const ptrdiff_t k = static_cast<ptrdiff_t>(ky * g.kernel_w + kx) * channels;
      for (int32_t c = 0; c < channels; ++c) visit(k + c, pixel + c);
    }
  }
}

template <typename Input>
void ConvQ8(const ConvQ8Params& p) {
  const ConvGeometry& g = p.geometry;
  const Input* input = static_cast<const Input*>(p.input);
  const int32_t* bias = static_cast<const int32_t*>(p.weights);
  const int16_t* weights = reinterpret_cast<const int16_t*>(bias + g.out_c);
  const ptrdiff_t depth = static_cast<ptrdiff_t>(g.kernel_h) * g.kernel_w * (g.in_c / g.groups);
  for (int32_t row = p.row_begin; row < p.row_end; ++row) {
    for (int32_t o = 0; o < g.out_c; ++o) {
      const int16_t* w = weights + o * depth;
      // unsigned addition wraps without being undefined
      uint32_t sum = static_cast<uint32_t>(bias[o]);
      ForEachInput(g, row, o / (g.out_c / g.groups), [&](ptrdiff_t k, ptrdiff_t i) {
        sum += static_cast<uint32_t>((input[i] - p.input_zero_point) * w[k]);
      });
      const int32_t acc = static_cast<int32_t>(sum);
      const ptrdiff_t at = static_cast<ptrdiff_t>(row) * g.output_stride + o;
      switch (p.output_type) {
        case ConvQ8Output::kUint8:
          static_cast<uint8_t*>(p.output)[at] =
              static_cast<uint8_t>(ApplyRequantize(acc, p.requantize, o));
          break;
        case ConvQ8Output::kInt8:
          static_cast<int8_t*>(p.output)[at] =
              static_cast<int8_t>(ApplyRequantize(acc, p.requantize, o));
          break;
        case ConvQ8Output::kInt32:
          static_cast<int32_t*>(p.output)[at] = acc;
          break;
        case ConvQ8Output::kFloat32: {
          const FloatSums& to = p.sums;
          uint32_t corrected = static_cast<uint32_t>(acc);
          if (to.row_zero) {
            corrected -=
                static_cast<uint32_t>(to.row_zero[row]) * static_cast<uint32_t>(to.column_sum[o]);
          }
          float sum = static_cast<float>(static_cast<int32_t>(corrected)) * to.scale[o];
          if (to.row_scale) sum *= to.row_scale[row];
          if (to.bias) sum += to.bias[o];
          if (to.residual) sum += to.residual[static_cast<ptrdiff_t>(row) * to.residual_stride + o];
          if (sum < to.lo) sum = to.lo;  // a NaN passes both comparisons
          if (sum > to.hi) sum = to.hi;
          static_cast<float*>(p.output)[at] = sum;
          break;
        }
      }
    }
  }
}

}  // namespace

void rq_conv_f32_scalar(const ConvF32Params* p) {
  const ConvGeometry& g = p->geometry;
  const float* bias = static_cast<const float*>(p->weights);
  const ptrdiff_t depth = static_cast<ptrdiff_t>(g.kernel_h) * g.kernel_w * (g.in_c / g.groups);
  for (int32_t row = p->row_begin; row < p->row_end; ++row) {
    for (int32_t o = 0; o < g.out_c; ++o) {
      const float* w = bias + g.out_c + o * depth;
      float sum = bias[o];
      ForEachInput(g, row, o / (g.out_c / g.groups),
                   [&](ptrdiff_t k, ptrdiff_t i) { sum += p->input[i] * w[k]; });
      if (p->residual != nullptr) {
        sum += p->residual[static_cast<ptrdiff_t>(row) * p->residual_stride + o];
      }
      if (sum < p->lo) sum = p->lo;  // a NaN passes both comparisons
      if (sum > p->hi) sum = p->hi;
      p->output[static_cast<ptrdiff_t>(row) * g.output_stride + o] = sum;
    }
  }
}

void rq_conv_q8_scalar(const ConvQ8Params* p) {
  if (p->input_signed) {
    ConvQ8<int8_t>(*p);
  } else {
    ConvQ8<uint8_t>(*p);
  }
  if (p->residual != nullptr) {
    rq_conv_add_residual(p, p->row_begin, p->row_end - p->row_begin, 0, p->geometry.out_c);
  }
}

}  // namespace requant
