// float32 convolution, vector form.
//
// Output is [rows, channels] = inputs [rows, K] x weights [K, channels] with K = kernel_h *
// kernel_w * input channels of the group. A 1x1 convolution reads its input in place; any other one
// first gathers a panel of rows into the workspace.
#include "kernels/conv/gather.h"
#include "kernels/conv/tile_f32.h"

void rq_conv_f32(const requant::ConvF32Params* p) {
  using namespace requant;
  const ConvGeometry& g = p->geometry;
  const int32_t depth = conv::Depth(g);
  const int32_t group_in = g.in_c / g.groups, group_out = g.out_c / g.groups;
  const int32_t blocks = (group_out + conv::kChannelBlock - 1) / conv::kChannelBlock;
  const ptrdiff_t block_floats = static_cast<ptrdiff_t>(conv::kChannelBlock) * (depth + 1);
  const bool in_place = conv::IsPointwise(g);
  const int32_t panel_rows = conv::PanelRows(g, depth * 4);
  float* panel = static_cast<float*>(p->workspace);

  for (int32_t row = p->row_begin; row < p->row_end; row += panel_rows) {
    const int32_t count = p->row_end - row < panel_rows ? p->row_end - row : panel_rows;
    const float* w = static_cast<const float*>(p->weights);
    for (int32_t group = 0; group < g.groups; ++group) {
      const float* a = panel;
      ptrdiff_t lda = depth;
      if (in_place) {
        a = p->input + static_cast<ptrdiff_t>(row) * g.input_stride + group * group_in;
        lda = g.input_stride;
      } else {
        conv::GatherRows(g, p->input, group * group_in, row, count, conv::CopyF32(), panel, lda);
      }
      for (int32_t b = 0; b < blocks; ++b, w += block_floats) {
        const int32_t n = group_out - b * conv::kChannelBlock;
        conv::Rows(a, 0, lda, 0, 1, depth, w, p, row, count,
                   group * group_out + b * conv::kChannelBlock,
                   n < conv::kChannelBlock ? n : conv::kChannelBlock);
      }
    }
  }
}
