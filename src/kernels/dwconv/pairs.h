#pragma once
// The walk of the depthwise kernels that multiply rows in vertical pairs. Freestanding.
//
// Pair q of an image are its rows 2q and 2q + 1, counted from the top padding. Neighbouring output
// rows share converted pairs, which live in a ring of OddPairs slots; with vertical dilation every
// output row converts its own. A group of channels goes through the whole image before the next, so
// that the ring stays small.
#include "kernels/dwconv/blocking.h"
#include "kernels/dwconv/kernel.h"
#include "kernels/requantize/kernel.h"
#include "kernels/simd.h"

namespace requant::dwconv {

/// convert(image, row_a, row_b, channel, n, slot) puts two input rows (outside of the image:
/// padding) into the ring; multiply(channel, n, first_slot, odd, ox, count) leaves the accumulators
/// of `count` pixels from column ox on in `acc`, `group` to a pixel. Results go to the output.
template <typename Convert, typename Multiply>
RQ_INLINE void WalkPairs(const DwConvQ8Params* p, int32_t group, const int32_t* acc,
                         Convert convert, Multiply multiply) {
  const ConvGeometry& g = p->geometry;
  const int32_t slots = OddPairs(g.kernel_h), strip = kStripElements / group;
  for (int32_t c = 0; c < g.out_c; c += group) {
    const int32_t n = g.out_c - c < group ? g.out_c - c : group;
    int32_t converted = -1;        // pairs below this one are in the ring
    int32_t converted_image = -1;  // of this image
    int32_t row = p->row_begin;
    while (row < p->row_end) {
      const int32_t begin = row % g.out_w, line = row / g.out_w;
      const int32_t oy = line % g.out_h, image = line / g.out_h;
      int32_t end = g.out_w;
      if (p->row_end - row < end - begin) end = begin + (p->row_end - row);

      const int32_t top = oy * g.stride_h;  // counted from the top padding
      int32_t odd = 0, first_slot = 0;
      if (g.dilation_h == 1) {
        odd = top & 1;
        const int32_t first = top >> 1;
        const int32_t last = first + (odd ? OddPairs(g.kernel_h) : EvenPairs(g.kernel_h));
        if (image != converted_image || converted < first) converted = first;
        converted_image = image;
        for (; converted < last; ++converted) {
          const int32_t y = 2 * converted - g.pad_top;
          convert(image, y, y + 1, c, n, converted % slots);
        }
        first_slot = first % slots;
      } else {
        for (int32_t q = 0; q < EvenPairs(g.kernel_h); ++q) {
          const int32_t y = top - g.pad_top + 2 * q * g.dilation_h;
          const int32_t below = 2 * q + 1 < g.kernel_h ? y + g.dilation_h : -1;
          convert(image, y, below, c, n, q);
        }
      }
      for (int32_t ox = begin; ox < end; ox += strip) {
        const int32_t count = end - ox < strip ? end - ox : strip;
        multiply(c, n, first_slot, odd, ox, count);
        const ptrdiff_t at = (static_cast<ptrdiff_t>(line) * g.out_w + ox) * g.output_stride + c;
        rq_requantize_rows(acc, group, count, c, n, &p->requantize,
                           static_cast<uint8_t*>(p->output) + at, g.output_stride,
                           p->output_signed);
      }
      row += end - begin;
    }
  }
}

}  // namespace requant::dwconv
