#pragma once
#include "requantize/base.c"

/* (x - zero) * scale. Channels have `inner` elements. */
typedef struct {
  int32_t count, channels, inner;
  uint8_t flip;
  const float* scales;
  const int32_t* zeros; /* 128 less if x is flipped */
} rq_dequantize;
static void rq_dequantize_run(const uint8_t* x, float* y, const rq_dequantize* p) {
  for (int32_t i = 0; i < p->count; ++i) {
    const int32_t channel = i / p->inner % p->channels;
    y[i] = (float)(rq_byte(x[i], p->flip) - p->zeros[channel]) * p->scales[channel];
  }
}
