#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Fills y with copies of one element. */
static void rq_fill(uint8_t* y, int32_t count, const uint8_t* element, int32_t bytes) {
  for (int32_t i = 0; i < count; ++i) memcpy(y + (ptrdiff_t)i * bytes, element, (size_t)bytes);
}
