#pragma once
#include "conv/window.c"

/* The number of taps of an axis that lie in [low, high). */
static inline int32_t rq_taps_inside(const rq_window* w, int axis, int32_t at, int32_t low,
                                     int32_t high) {
  int32_t count = 0;
  for (int32_t tap = 0; tap < w->kernel[axis]; ++tap) {
    const int32_t place = at * w->stride[axis] + tap * w->dilation[axis] - w->pad[axis];
    count += place >= low && place < high;
  }
  return count;
}
/* The number of elements that an output averages: those inside, or with `pad_end` (by axis) those
   of the padded input. */
static inline int32_t rq_count(const rq_window* w, int32_t output, const int32_t* pad_end) {
  const int32_t at[3] = {output / w->out[2] / w->out[1], output / w->out[2] % w->out[1],
                         output % w->out[2]};
  int32_t count = 1;
  for (int axis = 0; axis < 3; ++axis) {
    const int32_t before = pad_end ? w->pad[axis] : 0, after = pad_end ? pad_end[axis] : 0;
    count *= rq_taps_inside(w, axis, at[axis], -before, w->in[axis] + after);
  }
  return count;
}
