#include "kernels/conv/gather.h"
#include "kernels/conv/gather_bytes.h"

void rq_conv_gather_bytes(const requant::ConvQ8Params* p, int32_t first_channel, int32_t row,
                          int32_t count, int32_t flip, int32_t zero_point, void* panel,
                          ptrdiff_t stride) {
  using namespace requant;
  int8_t* out = static_cast<int8_t*>(panel);
  if (flip) {
    conv::GatherRows<conv::SignedBytes<uint8_t>>(p->geometry, static_cast<const uint8_t*>(p->input),
                                                 first_channel, row, count, zero_point, out,
                                                 stride);
  } else {
    conv::GatherRows<conv::SignedBytes<int8_t>>(p->geometry, static_cast<const int8_t*>(p->input),
                                                first_channel, row, count, zero_point, out, stride);
  }
}

void rq_conv_pad_line_bytes(const requant::ConvQ8Params* p, int32_t image, int32_t y, int32_t flip,
                            int32_t zero_point, void* line) {
  using namespace requant;
  int8_t* out = static_cast<int8_t*>(line);
  if (flip) {
    conv::PadLine<conv::SignedBytes<uint8_t>>(p->geometry, static_cast<const uint8_t*>(p->input),
                                              image, y, zero_point, out);
  } else {
    conv::PadLine<conv::SignedBytes<int8_t>>(p->geometry, static_cast<const int8_t*>(p->input),
                                             image, y, zero_point, out);
  }
}
