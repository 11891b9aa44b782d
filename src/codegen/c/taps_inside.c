#pragma once
#include "window.c"

/* How many taps of an axis lie in [low, high). */
static inline int32_t rq_taps_inside(const rq_window* w, int axis, int32_t at, int32_t low,
                                     int32_t high) {
  int32_t count = 0;
  for (int32_t tap = 0; tap < w->kernel[axis]; ++tap) {
    const int32_t place = at * w->stride[axis] + tap * w->dilation[axis] - w->pad[axis];
    count += place >= low && place < high;
  }
  return count;
}
