// 8-bit convolution of few input channels (an image's first layer), vector form: the arithmetic of
// vector_q8.cpp on lines (lines.h) of int16 with the zero point subtracted.
#include "kernels/conv/gather/gather.h"
#include "kernels/conv/lines.h"

namespace requant {
namespace {

using conv::kChannelBlock;

__attribute__((noinline)) void Convert(const ConvQ8Params* p, int32_t image, int32_t y,
                                       int16_t* out) {
  conv::PadLine(p->geometry, static_cast<const uint8_t*>(p->input), image, y, conv::WidenOf(p),
                out);
}

template <typename Int>
RQ_INLINE void Run(const ConvQ8Params* p) {
  uint8_t* workspace = static_cast<uint8_t*>(p->workspace);
  conv::ConvLines<conv::PairsOp<Int>>(
      p, static_cast<const uint8_t*>(p->weights) + sizeof(conv::PackedQ8Header), kChannelBlock * 4,
      reinterpret_cast<int32_t*>(workspace),
      reinterpret_cast<int16_t*>(workspace + conv::kEpilogueBytes),
      [p](int32_t image, int32_t y, int32_t, int16_t * out)
          __attribute__((always_inline)) { Convert(p, image, y, out); },
      [](const uint8_t* block, int32_t, int32_t) __attribute__((always_inline)) {
        return conv::LineStart{reinterpret_cast<const int32_t*>(block)};
      });
}

}  // namespace
}  // namespace requant

void rq_conv_q8_lines(const requant::ConvQ8Params* p) {
  if (static_cast<const requant::conv::PackedQ8Header*>(p->weights)->wide != 0) {
    requant::Run<int16_t>(p);
  } else {
    requant::Run<int8_t>(p);
  }
}
