#pragma once
#include <stddef.h>
#include <stdint.h>

/* Copies rows like rq_rows, and maps each byte by a table. */
static void rq_table_rows(const uint8_t* x, ptrdiff_t x_step, uint8_t* y, ptrdiff_t y_step,
                          int32_t rows, int32_t bytes, const uint8_t* table) {
  for (int32_t i = 0; i < rows; ++i) {
    for (int32_t j = 0; j < bytes; ++j) y[i * y_step + j] = table[x[i * x_step + j]];
  }
}
