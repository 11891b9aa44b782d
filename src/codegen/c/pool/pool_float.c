#pragma once
#include <float.h>
#include <math.h>
#include <stddef.h>

#include "conv/place.c"
#include "conv/taps_inside.c"

/* The largest element of a window (`most`), or the average of its elements: of those inside, or
   with `pad_end` of those of the padded input. An empty window gives the least number, or an
   average of 0. */
static void rq_pool_float(const float* x, float* y, const rq_window* w, int most,
                          const int32_t* pad_end) {
  const ptrdiff_t pixels = (ptrdiff_t)w->in[0] * w->in[1] * w->in[2];
  const int32_t outputs = w->out[0] * w->out[1] * w->out[2];
  const int32_t taps = w->kernel[0] * w->kernel[1] * w->kernel[2];
  for (int32_t plane = 0; plane < w->batch * w->in_channels; ++plane, x += pixels) {
    for (int32_t o = 0; o < outputs; ++o) {
      float sum = 0, largest = -FLT_MAX;
      int any = 0;
      for (int32_t tap = 0; tap < taps; ++tap) {
        const ptrdiff_t place = rq_place(w, o, tap);
        if (place < 0) continue;
        sum += x[place];
        largest = !any || x[place] > largest ? x[place] : largest;
        any = 1;
      }
      const int32_t count = rq_count(w, o, pad_end);
      *y++ = most ? largest : count > 0 ? sum / (float)count : 0;
    }
  }
}
