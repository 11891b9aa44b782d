#pragma once

#include <limits>
#include <optional>
#include <string>

#include "plan/builder.h"

namespace requant {

/// The bounds of Relu or Clip when they are constants. For integer tensors they are integers.
struct ClampBounds {
  double lo = -std::numeric_limits<double>::infinity();
  double hi = std::numeric_limits<double>::infinity();
};

/// What a kernel does after its accumulation on behalf of the nodes that follow.
struct Epilogue {
  const Value* output = nullptr;    // what the step computes in the end
  ClampBounds own;                  // of what is accumulated
  const Value* residual = nullptr;  // added to that
  const Node* addition = nullptr;   // by this node
  ClampBounds clamp;                // of the output; without a residual it is `own`
  std::string op;                   // "Conv+Add+Relu"
};

std::optional<ClampBounds> ReadClamp(const Node& node);

/// Takes what the builder's Follower() offers and the kernel can do: one Add or QLinearAdd with an
/// equally shaped tensor that is already planned (only if `allow_residual`), then Relu and Clip;
/// before a QLinearAdd as well, since codes of few bits are 8-bit ones that are clipped. The nodes
/// taken are absorbed, by the step's first node where that is another.
Epilogue TakeEpilogue(PlanBuilder& builder, const Node& node, bool allow_residual,
                      const Node* first = nullptr);

}  // namespace requant
