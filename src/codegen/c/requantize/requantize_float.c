#pragma once
#include <math.h>
#include <stdint.h>

/* A float32 product, rounded half to even. */
typedef struct {
  float factor;
} rq_scale;
static inline int64_t rq_requantize(int32_t sum, rq_scale by) {
  const float value = rintf((float)sum * by.factor);
  if (value >= 2147483648.0f) return INT32_MAX;
  if (value >= -2147483648.0f) return (int64_t)value;
  return value < 0 ? INT32_MIN : 0;
}
