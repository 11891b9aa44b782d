// Attention in 8 bits: which operators it concerns, and how a model allows it.
#pragma once

#include <string>

#include "ir/graph.h"

namespace requant {

/// The metadata of a model whose attention, although an operator of floats, may code its operands
/// in 8 bits when it runs. Other engines do not know it and compute in floats.
inline constexpr char kAccuracyKey[] = "requant.accuracy_level";
inline constexpr char kInt8Accuracy[] = "4";  // as accuracy_level of MatMulNBits

inline void AllowInt8Attention(Graph& graph) { graph.metadata[kAccuracyKey] = kInt8Accuracy; }

inline bool AllowsInt8Attention(const Graph& graph) {
  const auto found = graph.metadata.find(kAccuracyKey);
  return found != graph.metadata.end() && found->second == kInt8Accuracy;
}

/// Whether the node is an operator of attention with keys and values as inputs.
inline bool IsAttentionOperator(const Node& node) {
  return node.Is(Op::kAttention) || node.Is(Op::kHeadsAttention) ||
         node.Is(Op::kMultiHeadAttention) || node.op_type == "GroupQueryAttention";
}

}  // namespace requant
