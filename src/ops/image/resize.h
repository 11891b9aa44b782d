// Plans a Resize or Upsample for concrete shapes.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/op.h"

namespace requant {

/// One weighted input element of an output element.
struct ResizeTap {
  int64_t index;
  double weight;
};

struct ResizeAxisWalk {
  /// Whether the axis is copied.
  bool same = true;
  /// nearest: the input index of every output index; -1 outside the image.
  std::vector<int64_t> picked;
  /// linear, cubic: two or four taps of every output index (more or fewer where a filter is
  /// stretched); none outside the image.
  std::vector<std::vector<ResizeTap>> taps;
};

struct ResizeWalk {
  bool nearest = true;
  bool antialias = false;    // filters are stretched where the image shrinks
  double extrapolation = 0;  // value outside the image
  Shape shape;               // shape of the output
  std::vector<ResizeAxisWalk> axes;
};

/// Plans a node. `given` has the tensor in every input slot but the first, nullptr where it is
/// absent. Throws kUnsupported, kInvalidModel, kShapeMismatch.
ResizeWalk WalkResize(const Node& node, int opset, const Shape& input,
                      const std::vector<const Tensor*>& given);

}  // namespace requant
