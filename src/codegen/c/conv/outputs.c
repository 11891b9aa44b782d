#pragma once
#include "conv/window.c"

/* Finds the outputs [*begin, *end) between `first` and `last` for which a tap of the last axis lies
   inside. */
static inline void rq_outputs(const rq_window* w, int32_t tap, int32_t first, int32_t last,
                              int32_t* begin, int32_t* end) {
  const int32_t stride = w->stride[2], offset = tap * w->dilation[2] - w->pad[2];
  const int32_t room = w->in[2] - offset;
  int32_t least = offset < 0 ? -offset : 0, most = room < 0 ? 0 : room;
  if (stride != 1) { /* small processors divide slowly */
    least = (least + stride - 1) / stride;
    most = (most + stride - 1) / stride;
  }
  *begin = first > least ? first : least;
  *end = last < most ? last : most;
}
