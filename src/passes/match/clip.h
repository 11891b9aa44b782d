// Treats Relu, Clip, and Min and Max with a constant as one operation: clamping to a range.
#pragma once

#include <optional>

#include "ir/graph.h"

namespace requant {

struct ClipRange {
  Value* x = nullptr;
  double low = 0;   // -infinity: no bound
  double high = 0;  // +infinity: no bound
};

/// Reads `node` as a clamp of a float32 value by constants; nullopt if it is none.
std::optional<ClipRange> MatchClip(const Graph& graph, const Node& node);

/// Turns `node` into the simplest operator that clamps: Relu for [0, inf), else Clip in the form of
/// the graph's opset.
void MakeClip(Graph& graph, Node* node, const ClipRange& range);

}  // namespace requant
