// Reads the attributes and inputs of a Resize or Upsample into one description for each axis.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace requant {

/// The tensor arguments, nullptr where absent (an empty tensor counts as absent in opset 11).
struct ResizeInputs {
  const Tensor* roi = nullptr;
  const Tensor* scales = nullptr;
  const Tensor* sizes = nullptr;
};

/// The plan for one axis.
struct ResizeAxis {
  Dim output;
  float scale = 1;
  float roi_start = 0;
  float roi_end = 1;
  bool named = true;  // false: copied as it is
  bool by_scale = false;
};

inline constexpr size_t kNoSlot = static_cast<size_t>(-1);

/// The input slots of an operator; kNoSlot where it has none.
struct ResizeSlots {
  size_t roi, scales, sizes;
};

ResizeSlots SlotsOf(const Node& node, int opset);

/// Throws kUnsupported for a mode that is not supported.
std::string CoordinateMode(const Node& node, int opset);
/// These throw kInvalidModel for a mode that does not exist.
std::string NearestMode(const Node& node, int opset);
std::string InterpolationMode(const Node& node);

/// Throws kInvalidModel unless exactly one is there.
void NeedScalesOrSizes(const Node& node, bool has_scales, bool has_sizes);

/// The axes for an input whose dimensions may be unknown. Exactly one of scales and sizes is given.
std::vector<ResizeAxis> PlanResize(const Node& node, int opset, const SymbolicShape& input,
                                   const ResizeInputs& inputs);

}  // namespace requant
