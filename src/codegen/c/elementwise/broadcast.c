#pragma once
#include <stdint.h>

/* Two operands that are walked together, the last axis innermost; a stride of 0 repeats. */
enum { kAxes = 6 };
typedef struct {
  int32_t dims[kAxes], a[kAxes], b[kAxes];
} rq_pairs;
/* Finds the elements of both operands that belong to an output. */
static inline void rq_pair(const rq_pairs* p, int32_t output, int32_t* a, int32_t* b) {
  *a = *b = 0;
  for (int axis = kAxes - 1; axis >= 0; --axis) {
    const int32_t at = output % p->dims[axis];
    output /= p->dims[axis];
    *a += at * p->a[axis];
    *b += at * p->b[axis];
  }
}
/* The number of outputs. */
static inline int32_t rq_pairs_count(const rq_pairs* p) {
  int32_t count = 1;
  for (int axis = 0; axis < kAxes; ++axis) count *= p->dims[axis];
  return count;
}
