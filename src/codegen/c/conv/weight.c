#pragma once
#include <stddef.h>
#include <stdint.h>

/* A constant operand: first + step * code. Codes have 8 bits (stored as they are) or 4, 2 or 1,
   with the first code in a byte's lowest bits. */
typedef struct {
  const uint8_t* codes;
  int32_t bits, first, step;
  const int32_t* zeros; /* by channel; NULL if all are 0 */
} rq_weights;
static inline int32_t rq_weight(const rq_weights* w, int32_t at, int32_t channel) {
  const int32_t zero = w->zeros ? w->zeros[channel] : 0;
  if (w->bits == 8) return (int8_t)w->codes[at] - zero;
  const int32_t bit = at * w->bits;
  const int32_t code = w->codes[bit >> 3] >> (bit & 7) & ((1 << w->bits) - 1);
  return w->first + w->step * code - zero;
}
