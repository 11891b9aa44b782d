#pragma once
#include <stddef.h>

#include "conv/outputs.c"
#include "conv/weight.c"
#include "requantize/base.c"
#include "requantize/output.c"

typedef struct {
  rq_window window;
  int32_t zero; /* of the input; 128 less if it is flipped */
  uint8_t flip;
  rq_weights weights;
  const int32_t* bias; /* or NULL */
  rq_output output;
} rq_conv;
/* Adds one input plane times one kernel to the sums of a part of a line. Sums wrap around. */
static void rq_conv_plane(const rq_conv* p, const uint8_t* plane, int32_t weight, int32_t channel,
                          const int32_t* at, int32_t last, uint32_t* sums) {
  const rq_window* w = &p->window;
  const int32_t stride = w->stride[2], zero = p->zero;
  const uint8_t flip = p->flip;
  for (int32_t d = 0; d < w->kernel[0]; ++d) {
    const int32_t in_d = rq_tap(w, 0, at[0], d);
    for (int32_t h = 0; h < w->kernel[1]; ++h) {
      const int32_t in_h = rq_tap(w, 1, at[1], h);
      if (in_d < 0 || in_h < 0) {
        weight += w->kernel[2];
        continue;
      }
      const uint8_t* line = plane + ((ptrdiff_t)in_d * w->in[1] + in_h) * w->in[2];
      for (int32_t tap = 0; tap < w->kernel[2]; ++tap, ++weight) {
        const int32_t value = rq_weight(&p->weights, weight, channel);
        int32_t begin, end;
        rq_outputs(w, tap, at[2], last, &begin, &end);
        if (value == 0 || begin >= end) continue;
        const uint8_t* from = line + ((ptrdiff_t)begin * stride + tap * w->dilation[2] - w->pad[2]);
        uint32_t* to = sums + (begin - at[2]);
        for (int32_t i = 0; i < end - begin; ++i) {
          to[i] += (uint32_t)((rq_byte(from[(ptrdiff_t)i * stride], flip) - zero) * value);
        }
      }
    }
  }
}
