#pragma once

#include "ir/graph.h"

namespace requant {

/// Gives every value its type and makes constants of all shape arithmetic, in one walk over a graph
/// whose inputs have static shapes and whose other types are unknown. It does what the passes
/// InferType, FoldConstant and DynamicToStatic reach in several rounds, and removes what nobody
/// needs any more. Returns false, with the graph valid and typed as far as the walk came, where the
/// type of a value depends on data. Throws as InferTypes does.
bool ResolveShapes(Graph& graph);

}  // namespace requant
