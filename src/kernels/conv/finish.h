#pragma once
// Writes a strip of accumulators to the output, the last stage of the 8-bit vector kernels.
// Freestanding.
#include "base/simd.h"
#include "kernels/conv/blocking.h"
#include "kernels/conv/kernel.h"
#include "kernels/requantize/kernel.h"

namespace requant::conv {

/// Requantizes the accumulators of `count` rows and n channels to the output, or writes them
/// unchanged. n is at most a block's channels, except for a single row.
RQ_INLINE void Finish(const ConvQ8Params* p, const int32_t* acc, int32_t row, int32_t count,
                      int32_t channel, int32_t n) {
  if (p->output_type >= ConvQ8Output::kInt32) {
    rq_conv_write_sums(p, acc, row, count, channel, n);
    return;
  }
  const int32_t stride = p->geometry.output_stride;
  const ptrdiff_t offset = static_cast<ptrdiff_t>(row) * stride + channel;
  rq_requantize_rows(acc, kChannelBlock, count, channel, n, &p->requantize,
                     static_cast<uint8_t*>(p->output) + offset, stride,
                     p->output_type == ConvQ8Output::kInt8);
}

/// Adds the residual to rows of which all channels are written. Packed codes were added eight
/// channels at a time.
RQ_INLINE void AddResidual(const ConvQ8Params* p, int32_t row, int32_t count) {
  if (p->residual == nullptr || p->output_packed != 0 || p->residual_packed != 0) return;
  rq_conv_add_residual(p, row, count, 0, p->geometry.out_c);
}

}  // namespace requant::conv
