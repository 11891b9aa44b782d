#pragma once
#include <stddef.h>

#include "conv/window.c"

/* The position in the plane that a tap of an output's window reads; negative if it is outside. Taps
   and outputs are numbered through all axes. */
static inline ptrdiff_t rq_place(const rq_window* w, int32_t output, int32_t tap) {
  const int32_t d = rq_tap(w, 0, output / w->out[2] / w->out[1], tap / w->kernel[2] / w->kernel[1]);
  const int32_t h = rq_tap(w, 1, output / w->out[2] % w->out[1], tap / w->kernel[2] % w->kernel[1]);
  const int32_t v = rq_tap(w, 2, output % w->out[2], tap % w->kernel[2]);
  return d < 0 || h < 0 || v < 0 ? -1 : ((ptrdiff_t)d * w->in[1] + h) * w->in[2] + v;
}
