#pragma once
#include <stddef.h>

#include "conv/place.c"
#include "requantize/base.c"

/* The largest element of a window that lies inside; `flip` as in rq_byte. An empty window gives the
   least number. */
static void rq_max_pool(const uint8_t* x, uint8_t* y, const rq_window* w, uint8_t flip) {
  const ptrdiff_t pixels = (ptrdiff_t)w->in[0] * w->in[1] * w->in[2];
  const int32_t outputs = w->out[0] * w->out[1] * w->out[2];
  const int32_t taps = w->kernel[0] * w->kernel[1] * w->kernel[2];
  for (int32_t plane = 0; plane < w->batch * w->in_channels; ++plane, x += pixels) {
    for (int32_t o = 0; o < outputs; ++o) {
      int32_t most = -128;
      for (int32_t tap = 0; tap < taps; ++tap) {
        const ptrdiff_t place = rq_place(w, o, tap);
        if (place < 0) continue;
        const int32_t value = rq_byte(x[place], flip);
        most = value > most ? value : most;
      }
      *y++ = (uint8_t)most ^ flip;
    }
  }
}
