#pragma once
#include "conv/weight.c"
#include "matmul/matmul.c"

/* Multiplies by a constant [columns][inner]; one factor, or one per column, makes sums floats. */
static void rq_matmul_float(const uint8_t* a, const rq_weights* b, float* y, const rq_matmul* p,
                            const float* factors, int32_t factor_step) {
  for (int32_t r = 0; r < p->rows; ++r) {
    const uint8_t* row = a + (ptrdiff_t)r * p->a_row;
    for (int32_t c = 0; c < p->columns; ++c) {
      uint32_t sum = p->bias ? (uint32_t)p->bias[r * p->bias_row + c * p->bias_column] : 0;
      for (int32_t k = 0; k < p->inner; ++k) {
        const int32_t value = rq_byte(row[(ptrdiff_t)k * p->a_step], p->a_flip) - p->a_zero;
        sum += (uint32_t)(value * rq_weight(b, c * p->inner + k, c));
      }
      *y++ = (float)(int32_t)sum * factors[c * factor_step];
    }
  }
}
