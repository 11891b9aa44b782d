#pragma once
// What the vector kernels that this program was merged with can do on this machine.
#include <stdint.h>

#include "kernels/import.h"

/// 1: relaxed SIMD instructions are used; 0: plain simd128. Rows with isa "relaxed" compute the
/// same without them, but slowly.
RQ_KERNEL(rq_variant) int32_t rq_variant();

/// Whether i32x4.relaxed_dot_i8x16_i7x16_add_s multiplies whole bytes exactly here (one instruction
/// then, the fastest there is for 8 bits): 0 no, 1 signed by unsigned, 2 signed by signed, where
/// two products of -128 by -128 side by side may be 2^16 too little (probe_dot8.h): weights of that
/// form have no -128.
RQ_KERNEL(rq_dot8) int32_t rq_dot8();
