// float32 convolution that reads its windows in place, vector form: what lines.h says of integers.
// Here a whole window is summed in registers, one line after the other, in the order of
// vector_f32.cpp: the results are the same bits.
#include "kernels/conv/gather.h"
#include "kernels/conv/tile_f32.h"

void rq_conv_f32_lines(const requant::ConvF32Params* p) {
  using namespace requant;
  using conv::kChannelBlock;
  const ConvGeometry& g = p->geometry;
  const int32_t run = g.kernel_w * g.in_c;
  const ptrdiff_t pitch = conv::LineElements(g);
  const ptrdiff_t step = static_cast<ptrdiff_t>(g.stride_w) * g.in_c;
  const ptrdiff_t block_floats = static_cast<ptrdiff_t>(kChannelBlock) * (conv::Depth(g) + 1);
  float* ring = static_cast<float*>(p->workspace);
  int32_t padded = 0;  // lines, counted from the top padding, below this one are in the ring
  int32_t padded_image = -1;
  int32_t row = p->row_begin;
  while (row < p->row_end) {
    const int32_t begin = row % g.out_w, line = row / g.out_w;
    const int32_t oy = line % g.out_h, image = line / g.out_h;
    int32_t end = g.out_w;
    if (p->row_end - row < end - begin) end = begin + (p->row_end - row);
    const int32_t top = oy * g.stride_h;
    if (image != padded_image || padded < top) padded = top;
    padded_image = image;
    for (; padded < top + g.kernel_h; ++padded) {
      conv::PadLine(g, p->input, image, padded - g.pad_top, conv::CopyF32(),
                    ring + padded % g.kernel_h * pitch);
    }
    const float* w = static_cast<const float*>(p->weights);
    for (int32_t channel = 0; channel < g.out_c; channel += kChannelBlock, w += block_floats) {
      const int32_t n = g.out_c - channel < kChannelBlock ? g.out_c - channel : kChannelBlock;
      conv::Rows(ring + begin * step, pitch, step, top % g.kernel_h, g.kernel_h, run, w, p, row,
                 end - begin, channel, n);
    }
    row += end - begin;
  }
}
