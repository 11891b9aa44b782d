#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Copies elements by their numbers; outputs with a negative number stay unchanged. */
static void rq_select(const uint8_t* x, uint8_t* y, int32_t count, const int32_t* from,
                      int32_t bytes) {
  for (int32_t i = 0; i < count; ++i) {
    if (from[i] < 0) continue;
    memcpy(y + (ptrdiff_t)i * bytes, x + (ptrdiff_t)from[i] * bytes, (size_t)bytes);
  }
}
