#pragma once

#include <cstddef>
#include <vector>

#include "ir/graph.h"

namespace requant {

/// Nodes that something else computes as one operator. Only nodes of the composite read the results
/// of all but the last one, and the graph does not return them.
struct Composite {
  int pattern = 0;            ///< what the caller calls its kind
  std::vector<size_t> nodes;  ///< their indices in Graph::nodes(), ascending
};

/// The nodes of a composite. Throws kInvalidArgument, with the node, if it is none.
std::vector<const Node*> NodesOf(const Graph& graph, const Composite& composite);

}  // namespace requant
