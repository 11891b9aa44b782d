#pragma once

#include "ir/graph.h"

namespace requant {

/// A MatMul, QLinearMatMul or Gemm whose right-hand side is no constant matrix, so that it can only
/// be packed when it runs. (Code for these is among the rarer operators: bindings/README.md.)
bool IsComputedProduct(const Node& node);

/// Whether such a node may be left when the constants of the graph are folded.
bool HasComputedProducts(const Graph& graph);

}  // namespace requant
