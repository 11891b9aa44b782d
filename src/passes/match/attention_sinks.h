// Attention sinks as exporters write them out (Xiao et al., "Efficient streaming language models
// with attention sinks", 2023; gpt-oss): a score more in every row, whose key has no value.
//   all     = Concat(scores [B, H, S, T], sinks [.., H, .., 1]), along the last axis
//   p       = Softmax(all)   or   Softmax(all - ReduceMax(all)), which is the same
//   weights = Slice(p), all columns but the last
#pragma once

#include <optional>

#include "ir/graph.h"

namespace requant {

struct SunkScores {
  Value* scores = nullptr;   // without the sinks
  Value* weights = nullptr;  // without those of the sinks
  Value* sinks = nullptr;    // [B or 1, H, S or 1, 1], the same for every image and query
};

/// Reads the scores around a softmax, if they have sinks.
std::optional<SunkScores> ReadSinks(const Graph& graph, const Node& softmax);

/// The sinks [H] as a value: a constant, or a Reshape that is added near a node.
Value* SinksOf(Graph& graph, const Node* near, Value* sinks);

}  // namespace requant
