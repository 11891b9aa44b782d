#pragma once
// The inner loop of vector_narrow.cpp, for kernels that bring operands and sums of their own, and
// how many of its sums fit.
#include <stddef.h>
#include <stdint.h>

#include "kernels/import.h"

/// out[count][8] = from + the products of `count` rows of bytes in [0, 127], lda bytes apart, with
/// signed bytes [steps][8][4]. Sums of `segment` steps fit int16. `from`, which may be `out`, has
/// from_step int32 from row to row.
RQ_LOW_BITS_KERNEL(rq_conv_narrow_rows)
void rq_conv_narrow_rows(const uint8_t* a, ptrdiff_t lda, const uint8_t* weights, int32_t steps,
                         int32_t segment, const int32_t* from, ptrdiff_t from_step, int32_t count,
                         int32_t* out);

/// The least, bounds[0..3], and the most, bounds[4..7], that sums of int16 of `segment` steps at a
/// time can come to with inputs in [input_lo, input_hi], at most 255; of weights [steps][8][4],
/// signed bytes. 0 is among them. INT32_MIN and INT32_MAX where weights alone leave int16.
RQ_LOW_BITS_KERNEL(rq_conv_narrow_bounds)
void rq_conv_narrow_bounds(const uint8_t* weights, int32_t steps, int32_t segment, int32_t input_lo,
                           int32_t input_hi, int32_t* bounds);
