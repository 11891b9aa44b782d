#include "kernels/conv/gather.h"
#include "kernels/conv/gather_bytes.h"

void rq_conv_gather_bytes(const requant::ConvQ8Params* p, int32_t first_channel, int32_t row,
                          int32_t count, int32_t add, int32_t zero_point, void* panel,
                          ptrdiff_t stride) {
  const requant::conv::AddBytes op{zero_point, add};
  requant::conv::GatherRows(p->geometry, static_cast<const uint8_t*>(p->input), first_channel, row,
                            count, op, static_cast<uint8_t*>(panel), stride);
}

void rq_conv_gather_sums(const requant::ConvQ8Params* p, int32_t first_channel, int32_t row,
                         int32_t count, int32_t add, int32_t zero_point, int32_t factor,
                         void* panel, ptrdiff_t stride, int32_t* terms) {
  rq_conv_gather_bytes(p, first_channel, row, count, add, zero_point, panel, stride);
  requant::conv::SumRows(static_cast<const uint8_t*>(panel), count, stride, factor, terms);
}

void rq_conv_pad_line_bytes(const requant::ConvQ8Params* p, int32_t image, int32_t y, int32_t add,
                            int32_t zero_point, void* line) {
  const requant::conv::AddBytes op{zero_point, add};
  requant::conv::PadLine(p->geometry, static_cast<const uint8_t*>(p->input), image, y, op,
                         static_cast<uint8_t*>(line));
}
