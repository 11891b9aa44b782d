// The planes of a volume side by side, as an image with more channels (volume.cpp).
#pragma once

#include <cstddef>
#include <cstdint>

#include "plan/builder.h"

namespace requant {

/// Lays the planes of a window side by side: output plane z has the input planes z * stride - pad +
/// tap * dilation for every tap, pixel by pixel, or group by group of a pixel's channels.
struct Unfolding {
  int64_t batch, depth, out_depth;
  int64_t taps, stride, dilation, pad;
  size_t pixels, pixel_bytes;
  int64_t first = 0;  // first image
  int64_t groups = 1;

  bool IsIdentity() const { return taps == 1 && stride == 1 && pad == 0 && depth == out_depth; }
};

/// Adds the step that unfolds `source` and returns its result; planes outside of the image have
/// `padding`, of `element` bytes. The result must be less than 2^29 bytes.
int Unfold(PlanBuilder& builder, const Node& node, int source, const Unfolding& form,
           uint32_t padding, size_t element);

}  // namespace requant
