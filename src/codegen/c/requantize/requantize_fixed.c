#pragma once
#include <stdint.h>

/* One rounding, ties go up: (sum * multiplier + 2^(shift-1)) >> shift. */
typedef struct {
  int32_t multiplier, shift;
} rq_scale;
static inline int64_t rq_requantize(int32_t sum, rq_scale by) {
  return ((int64_t)sum * by.multiplier + ((int64_t)1 << (by.shift - 1))) >> by.shift;
}
