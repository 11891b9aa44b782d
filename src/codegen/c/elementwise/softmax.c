#pragma once
#include <math.h>
#include <stddef.h>
#include <stdint.h>

/* Softmax along an axis of `count` elements that are `inner` apart. */
static void rq_softmax(const float* x, float* y, int32_t outer, int32_t count, int32_t inner) {
  for (int32_t i = 0; i < outer * inner; ++i) {
    const ptrdiff_t first = (ptrdiff_t)(i / inner) * count * inner + i % inner;
    float most = x[first], sum = 0;
    for (int32_t k = 1; k < count; ++k) {
      const float value = x[first + (ptrdiff_t)k * inner];
      most = value > most ? value : most;
    }
    for (int32_t k = 0; k < count; ++k) {
      const float value = expf(x[first + (ptrdiff_t)k * inner] - most);
      y[first + (ptrdiff_t)k * inner] = value;
      sum += value;
    }
    for (int32_t k = 0; k < count; ++k) y[first + (ptrdiff_t)k * inner] /= sum;
  }
}
