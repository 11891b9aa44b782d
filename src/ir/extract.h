#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace requant {

/// Some nodes of a graph, in its order, as a graph of their own. Its inputs are the values that
/// they read, do not compute and that are no constants, in the order of reading; `outputs` are
/// values they compute or constants. All names stay, and constants share their bytes.
Graph Extract(const Graph& graph, const std::vector<const Node*>& nodes,
              const std::vector<const Value*>& outputs);

/// Copies the nodes that compute the values `to` from the values `from` into a graph of its own,
/// whose inputs are `from` in this order, and whose outputs are `to`. A name is that of a value, or
/// else of a node: in `from` it stands for the values that the node reads and that are no
/// constants, in `to` for those that it computes. An empty `from` stands for the inputs of the
/// graph. Constants come along. Throws kInvalidArgument, with the value, for a name that is
/// unknown, for a value of `from` that is not needed or that the cut computes itself, and for an
/// input of the graph that is needed and not in `from`.
Graph ExtractBetween(const Graph& graph, const std::vector<std::string>& from,
                     const std::vector<std::string>& to);

}  // namespace requant
