#pragma once

#include "ir/graph.h"

namespace requant {

/// Pad into the convolution or pool behind it; see pad_fold.cpp.
bool FoldPad(Graph& graph, Node* node);
/// The pads of a Pad node with all axes, or nothing when they are not constant.
std::optional<std::vector<int64_t>> PadsOf(const Node& node);

}  // namespace requant
