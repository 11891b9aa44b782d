#pragma once
#include <stdint.h>

/* One rounding, ties go away from zero. */
typedef struct {
  int32_t multiplier, shift;
} rq_scale;
static inline int64_t rq_requantize(int32_t sum, rq_scale by) {
  const int64_t product = (int64_t)sum * by.multiplier, half = (int64_t)1 << (by.shift - 1);
  return (product + (product >= 0 ? half : half - 1)) >> by.shift;
}
