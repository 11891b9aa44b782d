// The scale of attention's scores, for the quantizer.
#pragma once

#include "ir/graph.h"

namespace requant {

/// Moves a number that multiplies scores (`node` is a Mul or Div behind a product) into the layer
/// of their queries: between integers it would be an operator of its own, which rounds once more.
/// Returns whether it changed anything.
bool MoveScoreScale(Graph& graph, Node* node);

}  // namespace requant
