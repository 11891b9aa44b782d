// Adds a convolution's residual in place, so that conv + add + relu is one kernel: the rows of a
// panel are still in a cache.
#include "kernels/conv/kernel.h"

void rq_conv_add_residual(const requant::ConvQ8Params* p, int32_t row, int32_t count,
                          int32_t channel, int32_t channels) {
  const requant::ConvGeometry& g = p->geometry;
  // A block of parameters belongs to one call of one thread, so this part of it can serve as
  // scratch memory: these modules have no stack.
  auto* add = const_cast<requant::QAddParams*>(&p->addition);
  const ptrdiff_t at = row;
  uint8_t* out = static_cast<uint8_t*>(p->output) + at * g.output_stride + channel;
  const uint8_t* other =
      static_cast<const uint8_t*>(p->residual) + at * p->residual_stride + channel;
  const auto out_stride = static_cast<size_t>(g.output_stride);
  const auto other_stride = static_cast<size_t>(p->residual_stride);
  const bool first = p->residual_first != 0;
  add->a = first ? other : out;
  add->b = first ? out : other;
  add->out = out;
  add->rows = static_cast<size_t>(count);
  add->cols = static_cast<size_t>(channels);
  add->a_row_stride = first ? other_stride : out_stride;
  add->b_row_stride = first ? out_stride : other_stride;
  add->out_row_stride = out_stride;
  if (out_stride == add->cols && other_stride == add->cols) {
    add->cols *= add->rows;
    add->rows = 1;
  }
  if (p->addition_is_float != 0) {
    rq_qadd_float(add);
  } else {
    rq_qadd_fixed(add);
  }
}
