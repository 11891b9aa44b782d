#pragma once
#include "elementwise/broadcast.c"

/* Computes floats by `kind`: 0 adds, 1 subtracts, 2 multiplies, 3 divides. */
static void rq_arithmetic(const float* a, const float* b, float* y, const rq_pairs* p, int kind) {
  const int32_t count = rq_pairs_count(p);
  for (int32_t i = 0; i < count; ++i) {
    int32_t at_a, at_b;
    rq_pair(p, i, &at_a, &at_b);
    const float u = a[at_a], v = b[at_b];
    y[i] = kind == 0 ? u + v : kind == 1 ? u - v : kind == 2 ? u * v : u / v;
  }
}
