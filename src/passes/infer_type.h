#pragma once

#include "ir/graph.h"

namespace requant {

/// Sets the type of every node output from its inputs, joined with what the file declares; nodes
/// whose inputs are what they were the last time (Node::typed) are not looked at again. Returns
/// whether any type became better known. Throws kTypeMismatch or kShapeMismatch where declared and
/// inferred contradict each other, kUnsupported for unknown operators, and whatever an operator's
/// inference throws, always naming the node.
bool InferTypes(Graph& graph);

}  // namespace requant
