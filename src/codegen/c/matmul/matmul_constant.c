#pragma once
#include "conv/weight.c"
#include "matmul/matmul.c"

/* Multiplies by a constant [columns][inner]. If the output has no scales, y receives the sums
   themselves as int32_t. */
static void rq_matmul_constant(const uint8_t* a, const rq_weights* b, void* y, const rq_matmul* p) {
  uint8_t* elements = y;
  int32_t* whole = y;
  for (int32_t n = 0; n < p->batches; ++n) {
    for (int32_t r = 0; r < p->rows; ++r) {
      const uint8_t* row = a + (ptrdiff_t)n * p->a_batch + (ptrdiff_t)r * p->a_row;
      for (int32_t c = 0; c < p->columns; ++c) {
        uint32_t sum = p->bias ? (uint32_t)p->bias[r * p->bias_row + c * p->bias_column] : 0;
        for (int32_t k = 0; k < p->inner; ++k) {
          const int32_t value = rq_byte(row[(ptrdiff_t)k * p->a_step], p->a_flip) - p->a_zero;
          sum += (uint32_t)(value * rq_weight(b, c * p->inner + k, c));
        }
        if (p->output.scales) {
          *elements++ = rq_store((int32_t)sum, &p->output, c);
        } else {
          *whole++ = (int32_t)sum;
        }
      }
    }
  }
}
