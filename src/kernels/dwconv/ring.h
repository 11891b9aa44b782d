#pragma once
// The walk of the 8-bit depthwise kernels, which multiply several rows of the kernel at once.
// Freestanding.
//
// Block q of an image are its rows kRows * q and following, counted from the top padding.
// Neighbouring output rows share converted blocks, which live in a ring of slots; with vertical
// dilation every output row converts its own. A group of channels goes through the whole image
// before the next, so that the ring stays small.
#include "base/simd.h"
#include "kernels/dwconv/blocking.h"
#include "kernels/dwconv/kernel.h"
#include "kernels/requantize/kernel.h"

namespace requant::dwconv {

/// convert(image, row, step, channel, n, slot) puts the rows row, row + step, ... (outside of the
/// image: padding) into a slot of the ring; multiply(channel, n, slot, phase, ox, count) leaves the
/// accumulators of `count` pixels from column ox on in `acc`, `group` to a pixel: the kernel's
/// first row is the phase-th of that slot. Results go to the output.
template <int32_t kRows, typename Convert, typename Multiply>
RQ_INLINE void WalkRing(const DwConvQ8Params* p, int32_t group, int32_t slots, const int32_t* acc,
                        Convert convert, Multiply multiply) {
  const ConvGeometry& g = p->geometry;
  const int32_t strip = kStripElements / group;
  for (int32_t c = 0; c < g.out_c; c += group) {
    const int32_t n = g.out_c - c < group ? g.out_c - c : group;
    int32_t converted = -1;        // blocks below this one are in the ring
    int32_t converted_image = -1;  // of this image
    int32_t row = p->row_begin;
    while (row < p->row_end) {
      const int32_t begin = row % g.out_w, line = row / g.out_w;
      const int32_t oy = line % g.out_h, image = line / g.out_h;
      int32_t end = g.out_w;
      if (p->row_end - row < end - begin) end = begin + (p->row_end - row);

      const int32_t top = oy * g.stride_h;  // counted from the top padding
      int32_t phase = 0, first = 0, origin = top - g.pad_top;
      if (g.dilation_h == 1) {
        phase = top % kRows;
        first = top / kRows;
        origin = -g.pad_top;
        if (image != converted_image || converted < first) converted = first;
        converted_image = image;
      } else {
        converted = 0;  // rows of another output row are not these
      }
      const int32_t blocks = RowBlocks(kRows, g.kernel_h, phase);
      for (; converted < first + blocks; ++converted) {
        convert(image, origin + kRows * converted * g.dilation_h, g.dilation_h, c, n,
                converted % slots);
      }
      for (int32_t ox = begin; ox < end; ox += strip) {
        const int32_t count = end - ox < strip ? end - ox : strip;
        multiply(c, n, first % slots, phase, ox, count);
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
