#pragma once
// Convolution that reads its windows in place, for both element types. It avoids the gathering that
// few channels or wide images make expensive. Freestanding.
//
// With 27 values under a window, gathering costs more than multiplying. In the ring of lines
// (ring.h) a window's values on one line are one run of kernel_w * in_c, and the next pixel's run
// begins stride_w * in_c further on:
//
//   line     | p0 | p1 | p2 | p3 | p4 | ...      each pixel has in_c values
//   row 0    |----run-----|
//   row 1         |----run-----|                  kernel_w = 3, stride_w = 1
//   row 2              |----run-----|
//
// So the runs are the rows of a matrix product, one product for each line of the window. Weights of
// 0 pad each run to whole steps; the values behind the run then do not matter.
#include "kernels/conv/finish.h"
#include "kernels/conv/product.h"
#include "kernels/conv/ring.h"

namespace requant::conv {

/// Initial accumulators of some pixels of a line: eight, and `step` int32 to those of the next
/// pixel.
struct LineStart {
  const int32_t* from;
  ptrdiff_t step = 0;
};

/// convert(image, y, slot, out) writes line y with its padding to a slot of the ring;
/// prepare(block, ox, count) returns the initial accumulators of a block of weights. weight_bytes
/// is the offset of the weights in a block.
template <typename Op, typename Convert, typename Prepare>
RQ_INLINE void ConvLines(const ConvQ8Params* p, const uint8_t* weights, ptrdiff_t weight_bytes,
                         int32_t* acc, typename Op::In* ring, Convert convert, Prepare prepare) {
  const ConvGeometry& g = p->geometry;
  const int32_t run = g.kernel_w * g.in_c;
  const int32_t steps = (run + Op::kGroup - 1) / Op::kGroup;
  const ptrdiff_t line_elements = LineElements(g),
                  step = static_cast<ptrdiff_t>(g.stride_w) * g.in_c;
  const int32_t line_weights = steps * Op::kGroup * kChannelBlock;
  const ptrdiff_t block_bytes =
      weight_bytes + static_cast<ptrdiff_t>(g.kernel_h) * line_weights *
                         static_cast<ptrdiff_t>(sizeof(typename Op::Weight));
  const auto into_ring = [&](int32_t image, int32_t y, int32_t slot)
      __attribute__((always_inline)) {
    convert(image, y, slot, ring + slot * line_elements);
  };
  const auto multiply = [&](int32_t row, int32_t begin, int32_t end, int32_t top)
      __attribute__((always_inline)) {
    for (int32_t ox = begin; ox < end; ox += kEpilogueRows) {
      const int32_t count = end - ox < kEpilogueRows ? end - ox : kEpilogueRows;
      const uint8_t* block = weights;
      for (int32_t channel = 0; channel < g.out_c; channel += kChannelBlock, block += block_bytes) {
        const int32_t n = g.out_c - channel < kChannelBlock ? g.out_c - channel : kChannelBlock;
        const auto* w = reinterpret_cast<const typename Op::Weight*>(block + weight_bytes);
        LineStart start = prepare(block, ox, count);
        for (int32_t y = 0; y < g.kernel_h; ++y, w += line_weights) {
          Product<Op>(ring + (top + y) % g.kernel_h * line_elements + ox * step, step, w, steps,
                      start.from, start.step, count, acc);
          start = {acc, kChannelBlock};
        }
        Finish(p, acc, row + ox - begin, count, channel, n);
      }
      AddResidual(p, row + ox - begin, count);
    }
  };
  WalkLines(g, p->row_begin, p->row_end, into_ring, multiply);
}

}  // namespace requant::conv
