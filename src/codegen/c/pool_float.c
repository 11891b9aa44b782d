#pragma once
#include <math.h>
#include <stddef.h>

#include "taps_inside.c"

/* The largest element of a window (`most`), or the average: of the elements that lie inside, or
   with `pad_end` of those of the padded input. */
static void rq_pool_float(const float* x, float* y, const rq_window* w, int most,
                          const int32_t* pad_end) {
  const ptrdiff_t pixels = (ptrdiff_t)w->in[0] * w->in[1] * w->in[2];
  const int32_t outputs = w->out[0] * w->out[1] * w->out[2];
  const int32_t taps = w->kernel[0] * w->kernel[1] * w->kernel[2];
  for (int32_t plane = 0; plane < w->batch * w->in_channels; ++plane, x += pixels) {
    for (int32_t o = 0; o < outputs; ++o) {
      const int32_t at[3] = {o / w->out[2] / w->out[1], o / w->out[2] % w->out[1], o % w->out[2]};
      float sum = 0, largest = -HUGE_VALF;
      int32_t count = 1;
      for (int32_t tap = 0; tap < taps; ++tap) {
        const int32_t d = rq_tap(w, 0, at[0], tap / w->kernel[2] / w->kernel[1]);
        const int32_t h = rq_tap(w, 1, at[1], tap / w->kernel[2] % w->kernel[1]);
        const int32_t v = rq_tap(w, 2, at[2], tap % w->kernel[2]);
        if (d < 0 || h < 0 || v < 0) continue;
        const float value = x[((ptrdiff_t)d * w->in[1] + h) * w->in[2] + v];
        sum += value;
        largest = value > largest ? value : largest;
      }
      for (int axis = 0; axis < 3; ++axis) {
        const int32_t before = pad_end ? w->pad[axis] : 0, after = pad_end ? pad_end[axis] : 0;
        count *= rq_taps_inside(w, axis, at[axis], -before, w->in[axis] + after);
      }
      *y++ = most ? largest : sum / (float)count;
    }
  }
}
