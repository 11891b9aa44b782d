#include "passes/match/attention_scale.h"

#include <optional>
#include <utility>

#include "passes/rewrite.h"

namespace requant {
namespace {

/// A layer whose outputs become the queries: a product with constant weights, and a bias or none.
struct QueryLayer {
  Node* product = nullptr;
  Node* bias = nullptr;  // an Add whose operand `slot` is constant
  size_t slot = 0;
};

/// The layer behind whose outputs only reshapes and transposes lie before `queries`, and which
/// nobody else reads.
std::optional<QueryLayer> LayerOf(const Graph& graph, const Value* queries) {
  QueryLayer out;
  const Value* value = queries;
  const Node* reader = nullptr;
  while (Node* node = value->producer) {
    if (reader && graph.SoleConsumer(value) != reader) return std::nullopt;
    if (node->Is(Op::kMatMul) && node->input(1)->is_constant() && IsFloat32(node->input(1))) {
      out.product = node;
      return out;
    }
    if (node->Is(Op::kAdd) && out.bias == nullptr) {
      out.slot = node->input(0)->is_constant() ? 0 : 1;
      if (!node->input(out.slot)->is_constant()) return std::nullopt;
      out.bias = node;
      value = node->input(1 - out.slot);
    } else if (node->Is(Op::kReshape) || node->Is(Op::kTranspose)) {
      value = node->input(0);
    } else {
      return std::nullopt;
    }
    reader = node;
  }
  return std::nullopt;
}

void Multiply(Graph& graph, Node* node, size_t slot, float factor) {
  Tensor scaled = node->inputs[slot]->constant.Clone();
  auto* data = scaled.data<float>();
  for (int64_t i = 0; i < scaled.count(); ++i) data[i] *= factor;
  ReplaceConstant(graph, node, slot, std::move(scaled), node->inputs[slot]->name);
}

}  // namespace

bool MoveScoreScale(Graph& graph, Node* node) {
  const bool divides = node->Is(Op::kDiv);
  if (!divides && !node->Is(Op::kMul)) return false;
  for (size_t slot = divides ? 1 : 0; slot < 2; ++slot) {
    Value* scores = node->input(1 - slot);
    if (scores == nullptr || scores->producer == nullptr || !IsFloat32(scores)) continue;
    const auto number = ScalarOperand(node->input(slot), scores);
    Node* product = scores->producer;
    if (!number || *number == 0 || !product->Is(Op::kMatMul) || RankOf(scores) < 3 ||
        graph.SoleConsumer(scores) != node || graph.SoleConsumer(product->input(0)) != product) {
      continue;
    }
    const std::optional<QueryLayer> layer = LayerOf(graph, product->input(0));
    if (!layer || !Bypass(graph, node, scores)) continue;
    const auto factor = static_cast<float>(divides ? 1 / *number : *number);
    Multiply(graph, layer->product, 1, factor);
    if (layer->bias) Multiply(graph, layer->bias, layer->slot, factor);
    return true;
  }
  return false;
}

}  // namespace requant
