#pragma once
#include <stddef.h>

#include "conv/weight.c"
#include "conv/window.c"
#include "requantize/base.c"
#include "requantize/output.c"

/* Input i and tap k meet at output i * stride + k * dilation - pad. Weights are [in][out / groups]
   [kernel]; their zero points are indexed by channels of all groups. */
typedef struct {
  rq_window window;
  int32_t zero;
  uint8_t flip;
  rq_weights weights;
  const int32_t* bias;
  rq_output output;
} rq_conv_transpose;
/* The position that a tap reads for output `at`; negative if there is none. */
static int32_t rq_transposed_tap(const rq_window* w, int axis, int32_t at, int32_t tap) {
  const int32_t place = at + w->pad[axis] - tap * w->dilation[axis];
  if (place < 0 || place % w->stride[axis] != 0) return -1;
  return place / w->stride[axis] < w->in[axis] ? place / w->stride[axis] : -1;
}
static void rq_conv_transpose_run(const uint8_t* x, uint8_t* y, const rq_conv_transpose* p) {
  const rq_window* w = &p->window;
  const ptrdiff_t in_plane = (ptrdiff_t)w->in[0] * w->in[1] * w->in[2];
  const int32_t depth = w->in_channels / w->groups, group = w->out_channels / w->groups;
  const int32_t taps = w->kernel[0] * w->kernel[1] * w->kernel[2];
  const int32_t outputs = w->out[0] * w->out[1] * w->out[2];
  for (int32_t n = 0; n < w->batch; ++n) {
    for (int32_t m = 0; m < w->out_channels; ++m) {
      for (int32_t o = 0; o < outputs; ++o) {
        uint32_t sum = p->bias ? (uint32_t)p->bias[m] : 0;
        for (int32_t tap = 0; tap < taps; ++tap) {
          const int32_t tap_w = tap % w->kernel[2], tap_h = tap / w->kernel[2] % w->kernel[1];
          const int32_t tap_d = tap / w->kernel[2] / w->kernel[1];
          const int32_t in_w = rq_transposed_tap(w, 2, o % w->out[2], tap_w);
          const int32_t in_h = rq_transposed_tap(w, 1, o / w->out[2] % w->out[1], tap_h);
          const int32_t in_d = rq_transposed_tap(w, 0, o / w->out[2] / w->out[1], tap_d);
          if (in_w < 0 || in_h < 0 || in_d < 0) continue;
          for (int32_t c = m / group * depth; c < (m / group + 1) * depth; ++c) {
            const uint8_t bits = x[((ptrdiff_t)n * w->in_channels + c) * in_plane +
                                   ((ptrdiff_t)in_d * w->in[1] + in_h) * w->in[2] + in_w];
            const int32_t value = rq_weight(&p->weights, (c * group + m % group) * taps + tap, m);
            sum += (uint32_t)((rq_byte(bits, p->flip) - p->zero) * value);
          }
        }
        *y++ = rq_store((int32_t)sum, &p->output, m);
      }
    }
  }
}
