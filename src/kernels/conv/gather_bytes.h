#pragma once
// The panel of the kernels that multiply bytes. Freestanding.
#include "kernels/conv/kernel.h"

/// GatherRows (gather.h) of the input's bytes plus `add` (128: the top bit flipped); padding and
/// what a row has beyond the depth are `zero_point`, with `add` in it already.
RQ_KERNEL(rq_conv_gather_bytes)
void rq_conv_gather_bytes(const requant::ConvQ8Params* params, int32_t first_channel, int32_t row,
                          int32_t count, int32_t add, int32_t zero_point, void* panel,
                          ptrdiff_t stride);

/// The same, and terms[r] = factor * the sum of row r as signed bytes; `stride` is a multiple of 4.
/// It corrects weights that are coded with an offset, so as to fit the second operand of a relaxed
/// dot product.
RQ_KERNEL(rq_conv_gather_sums)
void rq_conv_gather_sums(const requant::ConvQ8Params* params, int32_t first_channel, int32_t row,
                         int32_t count, int32_t add, int32_t zero_point, int32_t factor,
                         void* panel, ptrdiff_t stride, int32_t* terms);

/// terms[r] = factor * the sum of `length` signed bytes, a multiple of 4, `stride` bytes behind
/// those of row r - 1.
RQ_KERNEL(rq_conv_sum_rows)
void rq_conv_sum_rows(const void* bytes, int32_t count, ptrdiff_t stride, ptrdiff_t length,
                      int32_t factor, int32_t* terms);

/// PadLine (gather.h) of the input's bytes, likewise.
RQ_KERNEL(rq_conv_pad_line_bytes)
void rq_conv_pad_line_bytes(const requant::ConvQ8Params* params, int32_t image, int32_t y,
                            int32_t add, int32_t zero_point, void* line);
