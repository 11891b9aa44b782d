#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Copies rows of `bytes` bytes between different strides. */
static void rq_rows(const uint8_t* x, ptrdiff_t x_step, uint8_t* y, ptrdiff_t y_step, int32_t rows,
                    size_t bytes) {
  for (int32_t i = 0; i < rows; ++i) memcpy(y + i * y_step, x + i * x_step, bytes);
}
