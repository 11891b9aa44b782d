#pragma once
#include <stdint.h>

static void rq_clamp(const float* x, float* y, int32_t count, float lo, float hi) {
  for (int32_t i = 0; i < count; ++i) {
    const float value = x[i] < lo ? lo : x[i];
    y[i] = value > hi ? hi : value;
  }
}
