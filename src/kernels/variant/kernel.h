#pragma once
// Which variant of the vector kernels this program was merged with.
#include <stdint.h>

#include "kernels/import.h"

/// 1: relaxed SIMD instructions are used; 0: plain simd128. Rows with isa "relaxed" compute the
/// same without them, but slowly.
RQ_KERNEL(rq_variant) int32_t rq_variant();
