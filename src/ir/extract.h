#pragma once

#include <vector>

#include "ir/graph.h"

namespace requant {

/// Some nodes of a graph, in its order, as a graph of their own. Its inputs are the values that
/// they read, do not compute and that are no constants, in the order of reading; `outputs` are
/// values they compute or constants. All names stay, and constants share their bytes.
Graph Extract(const Graph& graph, const std::vector<const Node*>& nodes,
              const std::vector<const Value*>& outputs);

}  // namespace requant
