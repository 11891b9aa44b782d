#pragma once
#include "elementwise/broadcast.c"
#include "requantize/base.c"

/* ((a * a_factor + b * b_factor) + 2^(shift-1)) >> shift, operands where a and b come without zero
 * points. */
typedef struct {
  rq_pairs pairs;
  int32_t a_zero, b_zero;
  uint8_t a_flip, b_flip;
  int32_t a_factor, b_factor, shift, zero, lo, hi;
} rq_add;
static void rq_add_run(const uint8_t* a, const uint8_t* b, uint8_t* y, const rq_add* p) {
  const int32_t row = p->pairs.dims[kAxes - 1], count = rq_pairs_count(&p->pairs);
  for (int32_t first = 0; first < count; first += row) {
    int32_t at_a, at_b;
    rq_pair(&p->pairs, first, &at_a, &at_b);
    for (int32_t i = 0; i < row; ++i) {
      const uint8_t bits_a = a[at_a + i * p->pairs.a[kAxes - 1]];
      const uint8_t bits_b = b[at_b + i * p->pairs.b[kAxes - 1]];
      const int32_t sum = (rq_byte(bits_a, p->a_flip) - p->a_zero) * p->a_factor +
                          (rq_byte(bits_b, p->b_flip) - p->b_zero) * p->b_factor;
      const int32_t value = ((sum + (1 << (p->shift - 1))) >> p->shift) + p->zero;
      y[first + i] = (uint8_t)(value < p->lo ? p->lo : value > p->hi ? p->hi : value);
    }
  }
}
