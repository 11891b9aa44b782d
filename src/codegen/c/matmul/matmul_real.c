#pragma once
#include <stddef.h>
#include <stdint.h>

/* `batches` products of [rows][inner] and [inner][columns] in float, plus a bias. */
typedef struct {
  int32_t batches, rows, columns, inner;
  int32_t a_batch, a_row, a_step, b_batch, b_step, b_column, bias_row, bias_column;
  float alpha, beta;
} rq_matmul_real;
static void rq_matmul_real_run(const float* a, const float* b, const float* bias, float* y,
                               const rq_matmul_real* p) {
  for (int32_t n = 0; n < p->batches; ++n) {
    for (int32_t r = 0; r < p->rows; ++r) {
      for (int32_t c = 0; c < p->columns; ++c) {
        const float* row = a + (ptrdiff_t)n * p->a_batch + (ptrdiff_t)r * p->a_row;
        const float* column = b + (ptrdiff_t)n * p->b_batch + (ptrdiff_t)c * p->b_column;
        float sum = 0;
        for (int32_t k = 0; k < p->inner; ++k) {
          sum += row[(ptrdiff_t)k * p->a_step] * column[(ptrdiff_t)k * p->b_step];
        }
        sum *= p->alpha;
        if (bias) sum += p->beta * bias[r * p->bias_row + c * p->bias_column];
        *y++ = sum;
      }
    }
  }
}
