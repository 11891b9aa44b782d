// Decides, for passes among the extended operators, whether a graph needs them (Pass::may_apply).
#include <algorithm>

#include "ops/matrix/products.h"
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

bool HasAttention(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const auto& node) {
    return node->Is(Op::kAttention) || node->op_type == "MultiHeadAttention";
  });
}

bool HasAttentionParts(const Graph& graph) {
  const auto is_attention = [](const auto& node) { return node->Is(Op::kAttention); };
  return HasDynamicProducts(graph) ||
         std::any_of(graph.nodes().begin(), graph.nodes().end(), is_attention);
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

bool HasWeightCodes(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const auto& node) {
    const Value* data = node->input(0);
    const Node* pair = node->Is(Op::kGather) && data ? data->producer : node.get();
    return pair && pair->Is(Op::kDequantizeLinear) &&
           (pair != node.get() || node->attributes.Int("block_size", 0) > 0);
  });
}

bool HasRowCodes(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const auto& node) {
    const Value* codes = node->Is(Op::kMatMulInteger) ? node->input(0) : nullptr;
    return codes && codes->producer && codes->producer->Is(Op::kQuantizeLinear);
  });
}

bool HasType(const Graph& graph, bool (*is_one)(DType)) {
  const auto has = [is_one](const auto& value) { return is_one(value->type.dtype); };
  if (std::any_of(graph.values().begin(), graph.values().end(), has)) return true;
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [is_one](const auto& node) {
    const auto& entries = node->attributes.entries();
    return std::any_of(entries.begin(), entries.end(), [is_one](const auto& entry) {
      if (const auto* body = std::get_if<Subgraph>(&entry.second)) return HasType(**body, is_one);
      if (const auto* tensor = std::get_if<Tensor>(&entry.second)) return is_one(tensor->dtype());
      const auto* number = std::get_if<int64_t>(&entry.second);
      const bool names_type = entry.first == "to" || entry.first.ends_with("dtype");
      return number && names_type && *number > 0 && *number < 256 &&
             is_one(static_cast<DType>(*number));
    });
  });
}

bool HasHalves(const Graph& graph) { return HasType(graph, IsHalf); }

bool HasEinsum(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [](const auto& node) { return node->Is(Op::kEinsum); });
}

}  // namespace requant
