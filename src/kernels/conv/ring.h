#pragma once
// The walk of convolutions that read their windows in place. Freestanding.
//
// Each input line is brought into the kernel's form once, with its padding, and kept in a ring of
// kernel_h lines that neighboring output lines share. Line y, counted from the top padding, is in
// slot y % kernel_h:
//
//   kernel_h = 3          slot 0   slot 1   slot 2
//   output line 0 reads   line 0   line 1   line 2
//   output line 1 reads   line 3   line 1   line 2      line 3 replaces line 0
//   output line 2 reads   line 3   line 4   line 2
#include "kernels/conv/blocking.h"
#include "kernels/output_lines.h"

namespace requant::conv {

/// For every output line that [row_begin, row_end) touches, calls convert(image, y, slot) for the
/// input lines that the ring does not hold yet, then stretch(row, begin, end, top) for the line's
/// pixels begin..end - 1, whose windows begin at line `top`.
template <typename Convert, typename Stretch>
RQ_INLINE void WalkLines(const ConvGeometry& g, int32_t row_begin, int32_t row_end, Convert convert,
                         Stretch stretch) {
  int32_t converted = 0;  // the ring holds lines below this one
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
