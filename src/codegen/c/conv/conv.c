#pragma once
#include "conv/conv_plane.c"

/* If the output has no scales, y receives the sums themselves as int32_t. */
static void rq_conv_run(const uint8_t* x, void* y, const rq_conv* p) {
  enum { kStretch = 128 };
  uint8_t* elements = y;
  int32_t* whole = y;
  uint32_t sums[kStretch];
  const rq_window* w = &p->window;
  const ptrdiff_t in_plane = (ptrdiff_t)w->in[0] * w->in[1] * w->in[2];
  const int32_t depth = w->in_channels / w->groups, group = w->out_channels / w->groups;
  const int32_t taps = w->kernel[0] * w->kernel[1] * w->kernel[2];
  for (int32_t n = 0; n < w->batch; ++n) {
    for (int32_t m = 0; m < w->out_channels; ++m) {
      const uint8_t* planes =
          x + ((ptrdiff_t)n * w->in_channels + (ptrdiff_t)(m / group) * depth) * in_plane;
      int32_t at[3];
      for (at[0] = 0; at[0] < w->out[0]; ++at[0]) {
        for (at[1] = 0; at[1] < w->out[1]; ++at[1]) {
          for (at[2] = 0; at[2] < w->out[2]; at[2] += kStretch) {
            const int32_t last = w->out[2] < at[2] + kStretch ? w->out[2] : at[2] + kStretch;
            const int32_t count = last - at[2];
            for (int32_t i = 0; i < count; ++i) sums[i] = p->bias ? (uint32_t)p->bias[m] : 0;
            for (int32_t c = 0; c < depth; ++c) {
              rq_conv_plane(p, planes + c * in_plane, (m * depth + c) * taps, m, at, last, sums);
            }
            if (p->output.scales) {
              for (int32_t i = 0; i < count; ++i) {
                *elements++ = rq_store((int32_t)sums[i], &p->output, m);
              }
            } else {
              for (int32_t i = 0; i < count; ++i) *whole++ = (int32_t)sums[i];
            }
          }
        }
      }
    }
  }
}
