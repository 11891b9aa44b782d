#pragma once

#include "ir/graph.h"

namespace requant {

/// Whether a MatMul, QLinearMatMul or Gemm has a dynamic right-hand side, which can only be packed
/// when it runs. (Code for these is among the extended operators: bindings/README.md.)
bool IsDynamicProduct(const Node& node);

/// Whether such a node may remain when the constants of the graph are folded.
bool HasDynamicProducts(const Graph& graph);

}  // namespace requant
