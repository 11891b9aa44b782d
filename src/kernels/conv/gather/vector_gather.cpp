#include "kernels/conv/gather/gather.h"
#include "kernels/conv/gather/gather_bytes.h"

namespace requant::conv {
namespace {

/// Gathers windows of one pixel; strides may skip pixels.
RQ_INLINE void GatherPixels(const ConvGeometry& g, const uint8_t* input, int32_t row, int32_t count,
                            const AddBytes& op, int32_t channels, uint8_t* panel) {
  const ptrdiff_t step = static_cast<ptrdiff_t>(g.stride_w) * g.input_stride;
  int32_t line = row / g.out_w, x = row - line * g.out_w;
  for (; count > 0; ++line, x = 0) {
    const int32_t y = line / g.out_h * g.in_h + line % g.out_h * g.stride_h;
    const uint8_t* in = input + static_cast<ptrdiff_t>(y) * g.in_w * g.input_stride + x * step;
    int32_t n = count < g.out_w - x ? count : g.out_w - x;
    count -= n;
    for (; n > 0; --n, in += step, panel += channels) op.Copy(in, channels, panel);
  }
}

}  // namespace
}  // namespace requant::conv

void rq_conv_gather_bytes(const requant::ConvQ8Params* p, int32_t first_channel, int32_t row,
                          int32_t count, int32_t add, int32_t zero_point, void* panel,
                          ptrdiff_t stride) {
  using namespace requant::conv;
  const AddBytes op{zero_point, add};
  const auto* input = static_cast<const uint8_t*>(p->input);
  auto* out = static_cast<uint8_t*>(panel);
  const int32_t channels = p->geometry.in_c / p->geometry.groups;
  if (IsOnePixel(p->geometry) && stride == channels && !IsPointwise(p->geometry)) {
    GatherPixels(p->geometry, input + first_channel, row, count, op, channels, out);
  } else {
    GatherRows(p->geometry, input, first_channel, row, count, op, out, stride);
  }
}

void rq_conv_gather_sums(const requant::ConvQ8Params* p, int32_t first_channel, int32_t row,
                         int32_t count, int32_t add, int32_t zero_point, int32_t factor,
                         void* panel, ptrdiff_t stride, int32_t* terms) {
  rq_conv_gather_bytes(p, first_channel, row, count, add, zero_point, panel, stride);
  rq_conv_sum_rows(panel, count, stride, stride, factor, terms);
}

void rq_conv_sum_rows(const void* rows, int32_t count, ptrdiff_t stride, ptrdiff_t length,
                      int32_t factor, int32_t* terms) {
  const uint8_t* bytes = static_cast<const uint8_t*>(rows);
  for (int32_t r = 0; r < count; ++r, bytes += stride) {
    v128_t sum = wasm_i32x4_splat(0);
    ptrdiff_t k = 0;
    for (; k + 16 <= length; k += 16) {
      sum = wasm_i32x4_add(sum, wasm_i32x4_extadd_pairwise_i16x8(
                                    wasm_i16x8_extadd_pairwise_i8x16(wasm_v128_load(bytes + k))));
    }
    for (; k < length; k += 4) {
      sum = wasm_i32x4_add(sum, wasm_i32x4_extadd_pairwise_i16x8(wasm_i16x8_extadd_pairwise_i8x16(
                                    wasm_v128_load32_zero(bytes + k))));
    }
    terms[r] = factor * (wasm_i32x4_extract_lane(sum, 0) + wasm_i32x4_extract_lane(sum, 1) +
                         wasm_i32x4_extract_lane(sum, 2) + wasm_i32x4_extract_lane(sum, 3));
  }
}

void rq_conv_pad_line_bytes(const requant::ConvQ8Params* p, int32_t image, int32_t y, int32_t add,
                            int32_t zero_point, void* line) {
  const requant::conv::AddBytes op{zero_point, add};
  requant::conv::PadLine(p->geometry, static_cast<const uint8_t*>(p->input), image, y, op,
                         static_cast<uint8_t*>(line));
}
