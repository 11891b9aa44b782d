// Decides, for passes among the extended operators, whether a graph needs them (Pass::may_apply).
#include <algorithm>

#include "ops/op.h"
#include "passes/pass.h"

namespace requant {

bool HasBodies(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const auto& node) {
    if (node->has_subgraph()) return true;
    if (node->op_type == "FastGelu" && node->input(1)) return true;
    const OpDef* op = FindOp(*node);
    return op && op->expand;
  });
}

bool HasAtrousTrick(const Graph& graph) {
  const auto before = [](const Node* node) {
    const Value* value = node ? node->input(0) : nullptr;
    return value ? value->producer : nullptr;
  };
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [&before](const auto& node) {
    if (!node->Is(Op::kConv)) return false;
    const Node* last = before(node.get());
    const Node* first = before(last);
    return first && ((last->Is(Op::kTranspose) && first->Is(Op::kSpaceToDepth)) ||
                     (last->Is(Op::kReshape) && first->Is(Op::kTranspose)));
  });
}

bool HasNormalizationParts(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const auto& node) {
    return node->Is(Op::kSqrt) || node->Is(Op::kPow) || node->Is(Op::kReduceL2);
  });
}

bool HasBlockedWeights(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const auto& node) {
    return node->Is(Op::kDequantizeLinear) && node->attributes.Int("block_size", 0) > 0;
  });
}

bool HasEinsum(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [](const auto& node) { return node->Is(Op::kEinsum); });
}

}  // namespace requant
