#pragma once
#include <stdint.h>

/* Maps single bytes by a table. */
static void rq_table(const uint8_t* x, uint8_t* y, int32_t count, const uint8_t* table) {
  for (int32_t i = 0; i < count; ++i) y[i] = table[x[i]];
}
