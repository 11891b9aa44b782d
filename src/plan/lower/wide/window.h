// Walks the windows of an NHWC image of 16-bit codes: for every output pixel the addresses of its
// taps.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/geometry.h"

namespace requant::wide {

/// Calls `body(pixel, inside)` for every output pixel, with the addresses of the window's pixels
/// that lie in the image in `taps`, which has room for those of a whole window.
template <typename Body>
void ForEachPixel(const ConvGeometry& g, const uint16_t* input, const uint16_t** taps,
                  Body&& body) {
  size_t pixel = 0;
  for (int32_t n = 0; n < g.batch; ++n) {
    const uint16_t* image = input + static_cast<ptrdiff_t>(n) * g.in_h * g.in_w * g.input_stride;
    for (int32_t y = 0; y < g.out_h; ++y) {
      for (int32_t x = 0; x < g.out_w; ++x, ++pixel) {
        size_t inside = 0;
        for (int32_t i = 0; i < g.kernel_h; ++i) {
          const int32_t row = y * g.stride_h - g.pad_top + i * g.dilation_h;
          for (int32_t j = 0; j < g.kernel_w; ++j) {
            const int32_t column = x * g.stride_w - g.pad_left + j * g.dilation_w;
            const bool in = row >= 0 && row < g.in_h && column >= 0 && column < g.in_w;
            if (!in) continue;
            taps[inside++] =
                image + (static_cast<ptrdiff_t>(row) * g.in_w + column) * g.input_stride;
          }
        }
        body(pixel, inside);
      }
    }
  }
}

}  // namespace requant::wide
