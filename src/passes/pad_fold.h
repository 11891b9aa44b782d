#pragma once

#include "ir/graph.h"

namespace requant {

/// Pad into the convolution or pool behind it; see pad_fold.cpp.
bool FoldPad(Graph& graph, Node* node);
/// Slice into the padding of the convolution in front of it; see pad_fold.cpp.
bool FoldCrop(Graph& graph, Node* slice);
/// The pads of a Pad node with all axes, or nothing when they are not constant.
std::optional<std::vector<int64_t>> PadsOf(const Node& node);

}  // namespace requant
