#pragma once
// Gathers panels for the kernels that multiply bytes. Freestanding.
#include "kernels/conv/kernel.h"

/// Runs GatherRows (gather.h) on the input's bytes and adds `add` to each (128 flips the top bit).
/// Padding, and the bytes of a row beyond its depth, are `zero_point`, which includes `add`.
RQ_KERNEL(rq_conv_gather_bytes)
void rq_conv_gather_bytes(const requant::ConvQ8Params* params, int32_t first_channel, int32_t row,
                          int32_t count, int32_t add, int32_t zero_point, void* panel,
                          ptrdiff_t stride);

/// Does what rq_conv_gather_bytes does and sets terms[r] = factor * (the sum of row r as signed
/// bytes); `stride` is a multiple of 4. The terms correct weights that are coded with an offset to
/// fit the second operand of a relaxed dot product.
RQ_KERNEL(rq_conv_gather_sums)
void rq_conv_gather_sums(const requant::ConvQ8Params* params, int32_t first_channel, int32_t row,
                         int32_t count, int32_t add, int32_t zero_point, int32_t factor,
                         void* panel, ptrdiff_t stride, int32_t* terms);

/// terms[r] = factor * (the sum of row r's `length` signed bytes). `length` is a multiple of 4, and
/// rows are `stride` bytes apart.
RQ_KERNEL(rq_conv_sum_rows)
void rq_conv_sum_rows(const void* bytes, int32_t count, ptrdiff_t stride, ptrdiff_t length,
                      int32_t factor, int32_t* terms);

/// Runs PadLine (gather.h) on the input's bytes, with `add` and `zero_point` as in
/// rq_conv_gather_bytes.
RQ_KERNEL(rq_conv_pad_line_bytes)
void rq_conv_pad_line_bytes(const requant::ConvQ8Params* params, int32_t image, int32_t y,
                            int32_t add, int32_t zero_point, void* line);
