#pragma once
// The inner loop of vector_narrow.cpp for kernels with operands and sums of their own, and the
// bounds of its sums.
#include <stddef.h>
#include <stdint.h>

#include "kernels/import.h"

/// out[count][8] = from + the products of `count` rows of bytes in [0, 127], lda bytes apart, with
/// signed bytes [steps][8][4]. Sums of `segment` steps must fit int16. `from`, which may be `out`,
/// has rows from_step int32 apart.
RQ_LOW_BITS_KERNEL(rq_conv_narrow_rows)
void rq_conv_narrow_rows(const uint8_t* a, ptrdiff_t lda, const uint8_t* weights, int32_t steps,
                         int32_t segment, const int32_t* from, ptrdiff_t from_step, int32_t count,
                         int32_t* out);

/// The range, bounds[0..3] to bounds[4..7], of int16 sums of `segment` steps at a time, for inputs
/// in [input_lo, input_hi], input_hi at most 255, and weights [steps][8][4], signed bytes. The
/// range includes 0. It is INT32_MIN to INT32_MAX where weights alone exceed int16.
RQ_LOW_BITS_KERNEL(rq_conv_narrow_bounds)
void rq_conv_narrow_bounds(const uint8_t* weights, int32_t steps, int32_t segment, int32_t input_lo,
                           int32_t input_hi, int32_t* bounds);
