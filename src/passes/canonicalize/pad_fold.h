#pragma once

#include "ir/graph.h"

namespace requant {

/// Folds a Pad into the convolution or pool behind it (pad_fold.cpp).
bool FoldPad(Graph& graph, Node* node);
/// Folds a Slice into the padding of the convolution before it (pad_fold.cpp).
bool FoldCrop(Graph& graph, Node* slice);
/// The pads of a Pad node for all axes; nullopt when they are not constant.
std::optional<std::vector<int64_t>> PadsOf(const Node& node);

}  // namespace requant
