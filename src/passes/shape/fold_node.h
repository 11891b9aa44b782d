#pragma once

#include "ir/graph.h"
#include "passes/pass.h"

namespace requant {

/// Makes constants of the results of a node whose operands are all constant, within the limits of
/// FoldConstant; the node is erased with its last used result. Returns whether it is gone. Throws
/// what the operator's reference throws, except kUnsupported: such an operator is reported when it
/// has to run.
bool FoldNode(Graph& graph, Node* node, const PassContext& context);

}  // namespace requant
