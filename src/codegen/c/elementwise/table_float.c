#pragma once
#include <stdint.h>

/* Maps single bytes to floats by a table. */
static void rq_table_float(const uint8_t* x, float* y, int32_t count, const float* table) {
  for (int32_t i = 0; i < count; ++i) y[i] = table[x[i]];
}
