#pragma once
#include "elementwise/broadcast.c"
#include "requantize/base.c"
#include "requantize/output.c"

typedef struct {
  rq_pairs pairs;
  int32_t a_zero, b_zero;
  uint8_t a_flip, b_flip;
  rq_output output;
} rq_mul;
static void rq_mul_run(const uint8_t* a, const uint8_t* b, uint8_t* y, const rq_mul* p) {
  const int32_t row = p->pairs.dims[kAxes - 1], count = rq_pairs_count(&p->pairs);
  for (int32_t first = 0; first < count; first += row) {
    int32_t at_a, at_b;
    rq_pair(&p->pairs, first, &at_a, &at_b);
    for (int32_t i = 0; i < row; ++i) {
      const uint8_t bits_a = a[at_a + i * p->pairs.a[kAxes - 1]];
      const uint8_t bits_b = b[at_b + i * p->pairs.b[kAxes - 1]];
      y[first + i] = rq_store(
          (rq_byte(bits_a, p->a_flip) - p->a_zero) * (rq_byte(bits_b, p->b_flip) - p->b_zero),
          &p->output, 0);
    }
  }
}
