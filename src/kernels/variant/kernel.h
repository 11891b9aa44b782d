#pragma once
// Asks the merged vector kernels what they can do on this machine.
#include <stdint.h>

#include "kernels/import.h"

/// 1: the kernels use relaxed SIMD instructions; 0: plain simd128. Rows with isa "relaxed" compute
/// the same results without them, but slowly.
RQ_KERNEL(rq_variant) int32_t rq_variant();

/// Whether i32x4.relaxed_dot_i8x16_i7x16_add_s multiplies whole bytes exactly here, which makes it
/// the fastest instruction for 8 bits:
/// - 0: it does not;
/// - 1: signed by unsigned;
/// - 2: signed by signed. Two neighboring products of -128 by -128 may then be 2^16 too little
///   (probe_dot8.h), so weights of this form have no -128.
RQ_KERNEL(rq_dot8) int32_t rq_dot8();
