#pragma once
// The walk of the convolutions that read their windows in place. Freestanding.
//
// Input lines are brought into the kernel's form once, with all padding written out, and live in a
// ring of kernel_h lines that neighbouring output rows share: line y, counted from the top padding,
// is at y % kernel_h.
#include "kernels/conv/blocking.h"
#include "kernels/output_lines.h"

namespace requant::conv {

/// For every line of output that [row_begin, row_end) touches: calls convert(image, y, line) for
/// the input lines that are not in the ring yet, then stretch(row, begin, end, top) for its pixels
/// begin..end - 1, whose windows begin at line `top` of the ring.
template <typename Convert, typename Stretch>
RQ_INLINE void WalkLines(const ConvGeometry& g, int32_t row_begin, int32_t row_end, Convert convert,
                         Stretch stretch) {
  int32_t converted = 0;  // lines below this one are in the ring
  int32_t converted_image = -1;
  ForEachLine(
      g, row_begin, row_end, [&](const OutputLine& at) __attribute__((always_inline)) {
        const int32_t top = at.y * g.stride_h;
        if (at.image != converted_image || converted < top) converted = top;
        converted_image = at.image;
        for (; converted < top + g.kernel_h; ++converted) {
          convert(at.image, converted - g.pad_top, converted % g.kernel_h);
        }
        stretch(at.row, at.begin, at.end, top);
      });
}

}  // namespace requant::conv
