#pragma once
#include <math.h>
#include <stdint.h>

/* round(x / scale) + zero, half to even; NaN gives the zero point. Channels have `inner` elements.
 */
typedef struct {
  int32_t count, channels, inner, lo, hi;
  const float* scales;
  const int32_t* zeros;
} rq_quantize;
static void rq_quantize_run(const float* x, uint8_t* y, const rq_quantize* p) {
  for (int32_t i = 0; i < p->count; ++i) {
    const int32_t channel = i / p->inner % p->channels, zero = p->zeros[channel];
    float steps = x[i] / p->scales[channel];
    if (steps != steps) steps = 0;
    steps = steps < (float)(p->lo - zero) ? (float)(p->lo - zero) : steps;
    steps = steps > (float)(p->hi - zero) ? (float)(p->hi - zero) : steps;
    y[i] = (uint8_t)((int32_t)rintf(steps) + zero);
  }
}
