#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace requant {

/// Operators that run as one: a layer, then maybe the addition of a residual, then maybe an
/// activation. Each value between them is read by the next only and is no graph output, so it need
/// never exist in memory.
struct FusionGroup {
  std::vector<const Node*> nodes;   // nodes[0] is the layer, in order of execution
  const Value* residual = nullptr;  // the other operand of the addition
  const Value* output = nullptr;    // what the last node gives

  const Node& anchor() const { return *nodes[0]; }
  /// "Conv+Add+Relu".
  std::string Pattern() const;
};

/// The groups of a graph (FuseOps), in the order of their last node; layers that stay alone are
/// groups of one. Every node is in at most one group: an addition of two layers goes to the one
/// that runs last.
std::vector<FusionGroup> FindFusionGroups(const Graph& graph);

}  // namespace requant
