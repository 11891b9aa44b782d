#pragma once
#include <math.h>

#include "elementwise/broadcast.c"
#include "requantize/base.c"

/* (a_scale * a + b_scale * b) / scale + zero, where every operation rounds to float32 by itself:
   volatile prevents fused multiply-adds. */
typedef struct {
  rq_pairs pairs;
  int32_t a_zero, b_zero;
  uint8_t a_flip, b_flip;
  float a_scale, b_scale, scale;
  int32_t zero, lo, hi;
} rq_add;
static void rq_add_run(const uint8_t* a, const uint8_t* b, uint8_t* y, const rq_add* p) {
  const int32_t row = p->pairs.dims[kAxes - 1], count = rq_pairs_count(&p->pairs);
  const float least = (float)(p->lo - p->zero), most = (float)(p->hi - p->zero);
  for (int32_t first = 0; first < count; first += row) {
    int32_t at_a, at_b;
    rq_pair(&p->pairs, first, &at_a, &at_b);
    for (int32_t i = 0; i < row; ++i) {
      const uint8_t bits_a = a[at_a + i * p->pairs.a[kAxes - 1]];
      const uint8_t bits_b = b[at_b + i * p->pairs.b[kAxes - 1]];
      const volatile float real_a = p->a_scale * (float)(rq_byte(bits_a, p->a_flip) - p->a_zero);
      const volatile float real_b = p->b_scale * (float)(rq_byte(bits_b, p->b_flip) - p->b_zero);
      const float sum = real_a + real_b;
      float value = sum / p->scale;
      value = value < least ? least : value > most ? most : value;
      y[first + i] = (uint8_t)(int32_t)rintf(value + (float)p->zero);
    }
  }
}
