#pragma once
#include "requantize/requantize_fixed.c"

/* Turns sums into 8-bit elements: by one scale, or by one for each channel (step 1). */
typedef struct {
  const rq_scale* scales;
  int32_t step, zero, lo, hi;
} rq_output;
static inline uint8_t rq_store(int32_t sum, const rq_output* to, int32_t channel) {
  int64_t value = rq_requantize(sum, to->scales[channel * to->step]) + to->zero;
  value = value < to->lo ? to->lo : value > to->hi ? to->hi : value;
  return (uint8_t)value;
}
