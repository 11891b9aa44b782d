#pragma once
#include <stdint.h>

/* gemmlowp's two roundings: the doubled high half of the product, then a shift. */
typedef struct {
  int32_t multiplier, shift;
} rq_scale;
static inline int64_t rq_requantize(int32_t sum, rq_scale by) {
  const int32_t left = by.shift < 31 ? 31 - by.shift : 0, right = by.shift > 31 ? by.shift - 31 : 0;
  int64_t value = (int64_t)sum * ((int64_t)1 << left);
  value = value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : value;
  value *= by.multiplier;
  value = (value + (value >= 0 ? 1 << 30 : 1 - (1 << 30))) / ((int64_t)1 << 31);
  const int64_t mask = ((int64_t)1 << right) - 1, rest = value & mask;
  return (value >> right) + (rest > (mask >> 1) + (value < 0));
}
