#pragma once

#include "ir/graph.h"

namespace requant {

/// Merges a constant behind a normalization, and behind the Transpose that restores its order,
/// into scale and bias.
bool FoldIntoNormalization(Graph& graph, Node* node);

}  // namespace requant
