#pragma once
#include <stddef.h>

#include "conv/place.c"

static void rq_conv_float(const float* x, const float* weights, const float* bias, float* y,
                          const rq_window* w) {
  const ptrdiff_t in_plane = (ptrdiff_t)w->in[0] * w->in[1] * w->in[2];
  const int32_t depth = w->in_channels / w->groups, group = w->out_channels / w->groups;
  const int32_t taps = w->kernel[0] * w->kernel[1] * w->kernel[2];
  const int32_t outputs = w->out[0] * w->out[1] * w->out[2];
  for (int32_t n = 0; n < w->batch; ++n) {
    for (int32_t m = 0; m < w->out_channels; ++m) {
      for (int32_t o = 0; o < outputs; ++o) {
        float sum = bias ? bias[m] : 0;
        for (int32_t tap = 0; tap < taps; ++tap) {
          const ptrdiff_t place = rq_place(w, o, tap);
          if (place < 0) continue;
          const float* from =
              x + ((ptrdiff_t)n * w->in_channels + m / group * depth) * in_plane + place;
          const float* by = weights + (ptrdiff_t)m * depth * taps + tap;
          for (int32_t c = 0; c < depth; ++c) sum += from[c * in_plane] * by[(ptrdiff_t)c * taps];
        }
        *y++ = sum;
      }
    }
  }
}
