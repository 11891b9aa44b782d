#pragma once
#include <stdint.h>

/* A function of single bytes that gives floats. */
static void rq_table_float(const uint8_t* x, float* y, int32_t count, const float* table) {
  for (int32_t i = 0; i < count; ++i) y[i] = table[x[i]];
}
