// The inner part of the convolution references, float and integer.
#pragma once

#include <cstdint>

#include "ops/shape_rules.h"

namespace requant {

/// sums += one input plane convolved with one kernel.
template <typename T, typename Sum>
void AddConvolved(const Geometry& g, const T* plane, const T* kernel, Sum* sums) {
  for (int64_t kd = 0; kd < g.kernel[0]; ++kd) {
    const int64_t offset_d = kd * g.dilation[0] - g.pad_begin[0];
    const Range rd = InsideOutputs(g.input[0], g.output[0], g.stride[0], offset_d);
    for (int64_t kh = 0; kh < g.kernel[1]; ++kh) {
      const int64_t offset_h = kh * g.dilation[1] - g.pad_begin[1];
      const Range rh = InsideOutputs(g.input[1], g.output[1], g.stride[1], offset_h);
      for (int64_t kw = 0; kw < g.kernel[2]; ++kw) {
        const Sum weight = *kernel++;
        const int64_t offset_w = kw * g.dilation[2] - g.pad_begin[2];
        const Range rw = InsideOutputs(g.input[2], g.output[2], g.stride[2], offset_w);
        const int64_t stride = g.stride[2];
        for (int64_t d = rd.first; d < rd.last; ++d) {
          for (int64_t h = rh.first; h < rh.last; ++h) {
            const int64_t line =
                (d * g.stride[0] + offset_d) * g.input[1] + h * g.stride[1] + offset_h;
            const T* from = plane + line * g.input[2] + offset_w;
            Sum* to = sums + (d * g.output[1] + h) * g.output[2];
            if (stride == 1) {
              for (int64_t w = rw.first; w < rw.last; ++w) to[w] += weight * from[w];
            } else {
              for (int64_t w = rw.first; w < rw.last; ++w) to[w] += weight * from[w * stride];
            }
          }
        }
      }
    }
  }
}

/// The geometry of a ConvTranspose. Input and output are those of the transposed operation: input i
/// and tap k meet at output i * stride + k * dilation - pad_begin.
Geometry TransposedGeometry(const AttributeMap& attributes, const Shape& input,
                            const Shape& weights);

}  // namespace requant
