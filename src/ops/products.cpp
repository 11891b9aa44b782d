#include "ops/products.h"

#include <algorithm>
#include <set>

namespace requant {

bool IsComputedProduct(const Node& node) {
  if (!node.Is("MatMul") && !node.Is("Gemm")) return false;
  const Tensor* right = node.constant(1);
  return right == nullptr || right->rank() != 2;
}

bool HasComputedProducts(const Graph& graph) {
  // Values that follow from inputs; in the order of the nodes, whose inputs come first.
  std::set<const Value*> computed;
  for (const Value* input : graph.inputs()) {
    if (!input->is_constant()) computed.insert(input);
  }
  const auto is_computed = [&computed](const Value* value) { return computed.contains(value); };
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](const auto& node) {
    if (IsComputedProduct(*node) && (node->constant(1) || is_computed(node->input(1)))) return true;
    if (std::any_of(node->inputs.begin(), node->inputs.end(), is_computed)) {
      computed.insert(node->outputs.begin(), node->outputs.end());
    }
    return false;
  });
}

}  // namespace requant
