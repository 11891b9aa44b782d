// float32 convolution that reads its windows in place, as lines.h does for integers, vector form.
// Registers sum a whole window here, one line after the other in the order of vector_f32.cpp, so
// the results are the same bits.
#include "kernels/conv/float/tile_f32.h"
#include "kernels/conv/gather/gather.h"
#include "kernels/conv/ring.h"

void rq_conv_f32_lines(const requant::ConvF32Params* p) {
  using namespace requant;
  using conv::kChannelBlock;
  const ConvGeometry& g = p->geometry;
  const int32_t run = g.kernel_w * g.in_c;
  const ptrdiff_t pitch = conv::LineElements(g);
  const ptrdiff_t step = static_cast<ptrdiff_t>(g.stride_w) * g.in_c;
  const ptrdiff_t block_floats = static_cast<ptrdiff_t>(kChannelBlock) * (conv::Depth(g) + 1);
  float* ring = static_cast<float*>(p->workspace);
  const auto pad = [&](int32_t image, int32_t y, int32_t slot) __attribute__((always_inline)) {
    conv::PadLine(g, p->input, image, y, conv::CopyF32(), ring + slot * pitch);
  };
  const auto multiply = [&](int32_t row, int32_t begin, int32_t end, int32_t top)
      __attribute__((always_inline)) {
    const float* w = static_cast<const float*>(p->weights);
    for (int32_t channel = 0; channel < g.out_c; channel += kChannelBlock, w += block_floats) {
      const int32_t n = g.out_c - channel < kChannelBlock ? g.out_c - channel : kChannelBlock;
      conv::Rows(ring + begin * step, pitch, step, top % g.kernel_h, g.kernel_h, run, w, p, row,
                 end - begin, channel, n);
    }
  };
  conv::WalkLines(g, p->row_begin, p->row_end, pad, multiply);
}
