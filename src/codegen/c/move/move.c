#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Moves elements along up to eight axes, the last one innermost. Strides count elements. */
enum { kMoveAxes = 8 };
typedef struct {
  int32_t bytes; /* size of an element */
  int32_t x_first, y_first;
  int32_t dims[kMoveAxes], x[kMoveAxes], y[kMoveAxes];
} rq_move;
static void rq_move_run(const uint8_t* x, uint8_t* y, const rq_move* p) {
  int32_t at[kMoveAxes] = {0};
  ptrdiff_t from = p->x_first, to = p->y_first;
  for (;;) {
    memcpy(y + to * p->bytes, x + from * p->bytes, (size_t)p->bytes);
    int axis = kMoveAxes - 1;
    for (; axis >= 0; --axis) {
      from += p->x[axis];
      to += p->y[axis];
      if (++at[axis] < p->dims[axis]) break;
      from -= (ptrdiff_t)p->x[axis] * p->dims[axis];
      to -= (ptrdiff_t)p->y[axis] * p->dims[axis];
      at[axis] = 0;
    }
    if (axis < 0) return;
  }
}
