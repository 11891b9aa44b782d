#pragma once
#include "matmul/matmul.c"

/* Multiplies by another dynamic operand, [inner][columns]. */
static void rq_matmul_dynamic(const uint8_t* a, const uint8_t* b, int32_t b_batch, uint8_t* y,
                              const rq_matmul* p) {
  for (int32_t n = 0; n < p->batches; ++n) {
    for (int32_t r = 0; r < p->rows; ++r) {
      const uint8_t* row = a + (ptrdiff_t)n * p->a_batch + (ptrdiff_t)r * p->a_row;
      for (int32_t c = 0; c < p->columns; ++c) {
        const uint8_t* column = b + (ptrdiff_t)n * b_batch + c;
        uint32_t sum = 0;
        for (int32_t k = 0; k < p->inner; ++k) {
          const int32_t value = rq_byte(row[(ptrdiff_t)k * p->a_step], p->a_flip) - p->a_zero;
          const uint8_t bits = column[(ptrdiff_t)k * p->columns];
          sum += (uint32_t)(value * (rq_byte(bits, p->b_flip) - p->b_zero));
        }
        *y++ = rq_store((int32_t)sum, &p->output, c);
      }
    }
  }
}
