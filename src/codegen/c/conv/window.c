#pragma once
#include <stdint.h>

/* A window over planes of three dimensions; leading ones may be 1. */
typedef struct {
  int32_t batch, in_channels, out_channels, groups;
  int32_t in[3], out[3], kernel[3], stride[3], dilation[3], pad[3];
} rq_window;
/* The position along an axis that a tap reads for output `at`; negative if it is outside. */
static inline int32_t rq_tap(const rq_window* w, int axis, int32_t at, int32_t tap) {
  const int32_t place = at * w->stride[axis] + tap * w->dilation[axis] - w->pad[axis];
  return place < w->in[axis] ? place : -1;
}
