#pragma once

#include <limits>
#include <optional>
#include <string>

#include "plan/builder.h"

namespace requant {

/// The constant bounds of Relu or Clip; integers for integer tensors.
struct ClampBounds {
  double lo = -std::numeric_limits<double>::infinity();
  double hi = std::numeric_limits<double>::infinity();
};

/// Operations that a kernel applies after its accumulation on behalf of the nodes that follow.
struct Epilogue {
  const Value* output = nullptr;    // the final output of the step
  ClampBounds own;                  // clamp of the accumulated value
  const Value* residual = nullptr;  // added to the clamped value
  const Node* addition = nullptr;   // the node that adds the residual
  ClampBounds clamp;                // clamp of the output; without a residual it is `own`
  std::string op;                   // "Conv+Add+Relu"
};

std::optional<ClampBounds> ReadClamp(const Node& node);

/// Takes the nodes that the builder's Follower() offers and the kernel can apply: one Add or
/// QLinearAdd with an equally shaped tensor that is already planned (only with `allow_residual`),
/// then Relu and Clip. Before a QLinearAdd it takes these as well, since a Clip limits 8-bit codes
/// to few bits. Absorbs the taken nodes into `node`, or into `first` where that is the step's first
/// node.
Epilogue TakeEpilogue(PlanBuilder& builder, const Node& node, bool allow_residual,
                      const Node* first = nullptr);

}  // namespace requant
