#pragma once
#include "matmul.c"
#include "weight.c"

/* By a constant of [columns][inner]: the sums themselves. */
static void rq_matmul_sums(const uint8_t* a, const rq_weights* b, int32_t* y, const rq_matmul* p) {
  for (int32_t n = 0; n < p->batches; ++n) {
    for (int32_t r = 0; r < p->rows; ++r) {
      const uint8_t* row = a + (ptrdiff_t)n * p->a_batch + (ptrdiff_t)r * p->a_row;
      for (int32_t c = 0; c < p->columns; ++c) {
        uint32_t sum = p->bias ? (uint32_t)p->bias[r * p->bias_row + c * p->bias_column] : 0;
        for (int32_t k = 0; k < p->inner; ++k) {
          const int32_t value = rq_byte(row[(ptrdiff_t)k * p->a_step], p->a_flip) - p->a_zero;
          sum += (uint32_t)(value * rq_weight(b, c * p->inner + k, c));
        }
        *y++ = (int32_t)sum;
      }
    }
  }
}
