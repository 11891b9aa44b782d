#pragma once
#include <stddef.h>
#include <stdint.h>

/* Constant operand: first + step * code, of 8 bits (then as they are) or of 4, 2 or 1, where the
   first code lies in a byte's lowest bits. */
typedef struct {
  const uint8_t* codes;
  int32_t bits, first, step;
  const int32_t* zeros; /* for each channel; NULL: all 0 */
} rq_weights;
static inline int32_t rq_weight(const rq_weights* w, int32_t at, int32_t channel) {
  const int32_t zero = w->zeros ? w->zeros[channel] : 0;
  if (w->bits == 8) return (int8_t)w->codes[at] - zero;
  const int32_t bit = at * w->bits;
  const int32_t code = w->codes[bit >> 3] >> (bit & 7) & ((1 << w->bits) - 1);
  return w->first + w->step * code - zero;
}
