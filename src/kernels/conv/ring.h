#pragma once
// The walk of the convolutions that read their windows in place. Freestanding.
//
// Input lines are brought into the kernel's form once, with all padding written out, and live in a
// ring of kernel_h lines that neighbouring output rows share: line y, counted from the top padding,
// is at y % kernel_h.
#include "base/simd.h"
#include "kernels/conv/blocking.h"

namespace requant::conv {

/// For every line of output that [row_begin, row_end) touches: calls convert(image, y, line) for
/// the input lines that are not in the ring yet, then stretch(row, begin, end, top) for its pixels
/// begin..end - 1, whose windows begin at line `top` of the ring.
template <typename Convert, typename Stretch>
RQ_INLINE void WalkLines(const ConvGeometry& g, int32_t row_begin, int32_t row_end, Convert convert,
                         Stretch stretch) {
  int32_t converted = 0;  // lines below this one are in the ring
  int32_t converted_image = -1;
  for (int32_t row = row_begin; row < row_end;) {
    const int32_t begin = row % g.out_w, line = row / g.out_w;
    const int32_t oy = line % g.out_h, image = line / g.out_h;
    int32_t end = g.out_w;
    if (row_end - row < end - begin) end = begin + (row_end - row);
    const int32_t top = oy * g.stride_h;
    if (image != converted_image || converted < top) converted = top;
    converted_image = image;
    for (; converted < top + g.kernel_h; ++converted) {
      convert(image, converted - g.pad_top, converted % g.kernel_h);
    }
    stretch(row, begin, end, top);
    row += end - begin;
  }
}

}  // namespace requant::conv
