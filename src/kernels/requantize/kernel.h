#pragma once
// Requantization of a block of int32 accumulators to 8 bits: the epilogue shared by the vector
// kernels, and a kernel of its own. Freestanding.
#include <stdint.h>

#include "kernels/import.h"
#include "numeric/requantize.h"

/// output[r][c] = ApplyRequantize(acc[r][c], *requantize, channel_begin + c) for r < rows, c <
/// channels; strides in elements. Every row of `acc` is readable up to the next multiple of 8
/// channels. requantize's lo and hi lie within the output type (uint8, or int8 when output_signed),
/// its zero point in [-128, 255].
RQ_KERNEL(rq_requantize_rows)
void rq_requantize_rows(const int32_t* acc, int32_t acc_stride, int32_t rows, int32_t channel_begin,
                        int32_t channels, const requant::RequantizeParams* requantize, void* output,
                        int32_t output_stride, int32_t output_signed);
