#pragma once

#include <vector>

#include "ir/graph.h"
#include "passes/pass.h"
#include "tensor/tensor.h"

namespace requant {

/// The results of a node whose operands are all constant, one for each output, within the limits of
/// FoldConstant; empty where the node must stay. Throws what the operator's reference throws,
/// except kUnsupported: such an operator is reported when it has to run.
std::vector<Tensor> FoldedResults(const Graph& graph, const Node& node, const PassContext& context);

/// Makes constants of FoldedResults; the node is erased with its last used result. Returns whether
/// it is gone. Throws what FoldedResults throws.
bool FoldNode(Graph& graph, Node* node, const PassContext& context);

}  // namespace requant
