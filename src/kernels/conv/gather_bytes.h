#pragma once
// The panel of the kernels that multiply bytes. Freestanding.
#include "kernels/conv/kernel.h"

/// GatherRows (gather.h) of the input's bytes, with the top bit flipped if `flip`; padding and what
/// a row has beyond the depth are `zero_point`, a byte in its flipped form.
RQ_KERNEL(rq_conv_gather_bytes)
void rq_conv_gather_bytes(const requant::ConvQ8Params* params, int32_t first_channel, int32_t row,
                          int32_t count, int32_t flip, int32_t zero_point, void* panel,
                          ptrdiff_t stride);

/// PadLine (gather.h) of the input's bytes, likewise.
RQ_KERNEL(rq_conv_pad_line_bytes)
void rq_conv_pad_line_bytes(const requant::ConvQ8Params* params, int32_t image, int32_t y,
                            int32_t flip, int32_t zero_point, void* line);
