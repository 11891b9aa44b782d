#pragma once

#include <vector>

#include "ir/graph.h"

namespace requant {

/// Some nodes of a graph, in its order, as a graph of their own. Its inputs are what they read that
/// is neither theirs nor constant, in the order of reading; `outputs` are values of theirs or
/// constants. All names stay, constants share their bytes.
Graph Extract(const Graph& graph, const std::vector<const Node*>& nodes,
              const std::vector<const Value*>& outputs);

}  // namespace requant
