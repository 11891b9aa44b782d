#pragma once

#include "ir/graph.h"

namespace requant {

/// Sets the type of every node output from its inputs, merged with what the file declares. Skips
/// nodes whose inputs have not changed since the last time (Node::typed). Returns whether any type
/// became better known. Throws kTypeMismatch or kShapeMismatch where declared and inferred types
/// contradict each other, kUnsupported for unknown operators, and whatever an operator's inference
/// throws, always naming the node.
bool InferTypes(Graph& graph);

/// Does that for the outputs of one node.
bool InferNodeTypes(Graph& graph, Node& node);

}  // namespace requant
