#pragma once

#include <limits>
#include <optional>
#include <string>

#include "plan/builder.h"

namespace requant {

/// What a kernel does after its accumulation on behalf of the nodes that follow.
struct Epilogue {
  const Value* output = nullptr;    // what the step computes in the end
  const Value* residual = nullptr;  // added before the clamp
  const Node* addition = nullptr;   // by this node
  double lo = -std::numeric_limits<double>::infinity();
  double hi = std::numeric_limits<double>::infinity();
  std::string op;  // "Conv+Add+Relu"
};

/// The bounds of Relu or Clip when they are constants. For integer tensors they are integers.
struct ClampBounds {
  double lo, hi;
};
std::optional<ClampBounds> ReadClamp(const Node& node);

/// Takes what the builder's Follower() offers and the kernel can do: one Add or QLinearAdd with an
/// equally shaped tensor that is already planned (only if `allow_residual`), then Relu and Clip.
/// The nodes taken are absorbed.
Epilogue TakeEpilogue(PlanBuilder& builder, const Node& node, bool allow_residual);

}  // namespace requant
