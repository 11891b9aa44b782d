#pragma once
#include <stddef.h>

#include "conv/place.c"
#include "conv/taps_inside.c"
#include "requantize/base.c"
#include "requantize/output.c"

/* Scales are indexed by the number of averaged elements, minus 1. `pad_end` is used with
   count_pad. */
typedef struct {
  rq_window window;
  int32_t pad_end[3], count_pad;
  int32_t zero;
  uint8_t flip;
  int32_t channels_last;
  rq_output output;
} rq_average_pool;
static void rq_average_pool_run(const uint8_t* x, uint8_t* y, const rq_average_pool* p) {
  const rq_window* w = &p->window;
  const int32_t pixels = w->in[0] * w->in[1] * w->in[2];
  const int32_t outputs = w->out[0] * w->out[1] * w->out[2];
  const int32_t taps = w->kernel[0] * w->kernel[1] * w->kernel[2];
  const int32_t step = p->channels_last ? w->in_channels : 1;
  for (int32_t n = 0; n < w->batch; ++n) {
    for (int32_t c = 0; c < w->in_channels; ++c) {
      const ptrdiff_t image = (ptrdiff_t)n * w->in_channels;
      const uint8_t* plane = x + (p->channels_last ? image * pixels + c : (image + c) * pixels);
      uint8_t* to = y + (p->channels_last ? image * outputs + c : (image + c) * outputs);
      for (int32_t o = 0; o < outputs; ++o) {
        const int32_t count = rq_count(w, o, p->count_pad ? p->pad_end : NULL);
        int32_t sum = 0;
        for (int32_t tap = 0; tap < taps; ++tap) {
          const ptrdiff_t place = rq_place(w, o, tap);
          if (place >= 0) sum += rq_byte(plane[place * step], p->flip) - p->zero;
        }
        to[(ptrdiff_t)o * step] = rq_store(sum, &p->output, count > 0 ? count - 1 : 0);
      }
    }
  }
}
