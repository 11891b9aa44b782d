#pragma once
// The walk over lines of output pixels, shared by kernels whose neighboring windows overlap.
// Freestanding.
#include "base/simd.h"
#include "kernels/geometry.h"

namespace requant {

/// Pixels [begin, end) of line y of one output image; `row` numbers the first pixel over all
/// images.
struct OutputLine {
  int32_t row, image, y, begin, end;
};

/// Calls each(OutputLine) for every line that [row_begin, row_end) touches.
template <typename Each>
RQ_INLINE void ForEachLine(const ConvGeometry& g, int32_t row_begin, int32_t row_end, Each each) {
  for (int32_t row = row_begin; row < row_end;) {
    const int32_t begin = row % g.out_w, line = row / g.out_w;
    int32_t end = g.out_w;
    if (row_end - row < end - begin) end = begin + (row_end - row);
    each(OutputLine{row, line / g.out_h, line % g.out_h, begin, end});
    row += end - begin;
  }
}

}  // namespace requant
