#include "ops/matrix/products.h"

#include <algorithm>
#include <set>

namespace requant {

namespace {

/// The slot of the right-hand side, -1 for other operators.
int RightOf(const Node& node) {
  if (node.Is(Op::kQLinearMatMul)) return 3;
  return node.Is(Op::kMatMul) || node.Is(Op::kGemm) ? 1 : -1;
}

}  // namespace

bool IsDynamicProduct(const Node& node) {
  const int slot = RightOf(node);
  if (slot < 0) return false;
  const Tensor* right = node.constant(static_cast<size_t>(slot));
  return right == nullptr || right->rank() != 2;
}

bool HasDynamicProducts(const Graph& graph) {
  // Values that follow from inputs. Nodes come in an order in which inputs precede their readers.
  std::set<const Value*> dynamic;
  for (const Value* input : graph.inputs()) {
    if (!input->is_constant()) dynamic.insert(input);
  }
  const auto is_dynamic = [&dynamic](const Value* value) { return dynamic.contains(value); };
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](const auto& node) {
    if (IsDynamicProduct(*node)) {
      const auto slot = static_cast<size_t>(RightOf(*node));
      if (node->constant(slot) || is_dynamic(node->input(slot))) return true;
    }
    if (std::any_of(node->inputs.begin(), node->inputs.end(), is_dynamic)) {
      dynamic.insert(node->outputs.begin(), node->outputs.end());
    }
    return false;
  });
}

}  // namespace requant
