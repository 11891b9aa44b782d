#pragma once
// The walk of the 8-bit depthwise kernels, which multiply several rows of the kernel at once.
// Freestanding.
//
// Block q of an image is its rows kRows * q and following, counted from the top padding.
// Neighboring output lines share converted blocks, which live in a ring of slots; with vertical
// dilation every output line converts its own. One group of channels goes through the whole image
// before the next, so that the ring stays small.
#include "kernels/dwconv/blocking.h"
#include "kernels/dwconv/kernel.h"
#include "kernels/output_lines.h"
#include "kernels/requantize/kernel.h"

namespace requant::dwconv {

/// The results of one call of `multiply`: n channels from c on of `count` pixels; `pixel` is the
/// first, counted over all images. `acc` has `group` accumulators for each pixel.
struct Results {
  const int32_t* acc;
  int32_t group, c, n, pixel, count;
};

/// Runs three functions over the output. convert(image, row, step, channel, n, slot) puts the rows
/// row, row + step, ... into a slot of the ring (a row outside the image is padding).
/// multiply(channel, n, slot, phase, ox, count) leaves the accumulators of `count` pixels from
/// column ox on in `acc`, `group` to a pixel; the kernel's first row is the phase-th of that slot.
/// finish(Results) writes them to the output.
template <int32_t kRows, typename Convert, typename Multiply, typename Finish>
RQ_INLINE void WalkRing(const DwConvQ8Params* p, int32_t group, int32_t slots, const int32_t* acc,
                        Convert convert, Multiply multiply, Finish finish) {
  const ConvGeometry& g = p->geometry;
  const int32_t strip = kStripElements / group;
  for (int32_t c = 0; c < g.out_c; c += group) {
    const int32_t n = g.out_c - c < group ? g.out_c - c : group;
    int32_t converted = -1;        // the ring holds blocks below this one
    int32_t converted_image = -1;  // the image of these blocks
    ForEachLine(
        g, p->row_begin, p->row_end, [&](const OutputLine& at) __attribute__((always_inline)) {
          const int32_t top = at.y * g.stride_h;  // counted from the top padding
          int32_t phase = 0, first = 0, origin = top - g.pad_top;
          if (g.dilation_h == 1) {
            phase = top % kRows;
            first = top / kRows;
            origin = -g.pad_top;
            if (at.image != converted_image || converted < first) converted = first;
            converted_image = at.image;
          } else {
            converted = 0;  // the ring holds rows of another output line
          }
          const int32_t blocks = RowBlocks(kRows, g.kernel_h, phase);
          for (; converted < first + blocks; ++converted) {
            convert(at.image, origin + kRows * converted * g.dilation_h, g.dilation_h, c, n,
                    converted % slots);
          }
          for (int32_t ox = at.begin; ox < at.end; ox += strip) {
            const int32_t count = at.end - ox < strip ? at.end - ox : strip;
            multiply(c, n, first % slots, phase, ox, count);
            finish(Results{acc, group, c, n, at.row + ox - at.begin, count});
          }
        });
  }
}

/// Requantizes results to bytes of the output.
RQ_INLINE void FinishBytes(const DwConvQ8Params* p, const Results& r) {
  const int32_t stride = p->geometry.output_stride;
  const ptrdiff_t at = static_cast<ptrdiff_t>(r.pixel) * stride + r.c;
  rq_requantize_rows(r.acc, r.group, r.count, r.c, r.n, &p->requantize,
                     static_cast<uint8_t*>(p->output) + at, stride, p->output_signed);
}

}  // namespace requant::dwconv
