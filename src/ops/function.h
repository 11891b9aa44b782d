// Operators that are others written shorter.
#pragma once

#include <memory>

#include "ir/graph.h"

namespace requant {

/// What a node stands for, in the operators of the graph's opset: its inputs are the node's that
/// are not left out, in order, its outputs the node's (more of them than the node has are not
/// needed). nullptr for a node that stands for itself, or whose form depends on a rank not known
/// yet. Throws kUnsupported for a form that cannot be spelled out.
std::unique_ptr<Graph> FunctionBody(const Graph& graph, const Node& node);

}  // namespace requant
