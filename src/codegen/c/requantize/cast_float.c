#pragma once
#include <stdint.h>

static void rq_cast_float(const int32_t* x, float* y, int32_t count) {
  for (int32_t i = 0; i < count; ++i) y[i] = (float)x[i];
}
