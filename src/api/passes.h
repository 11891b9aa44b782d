// The passes that need layers above the passes.
#pragma once

#include <span>

#include "passes/pass.h"

namespace requant {

/// The passes that need more than a graph, Legalize and AnnotateUsedMemory, for
/// PipelineOptions::more.
std::span<const Pass> ApiPasses();
/// Turns Q/DQ nodes into integer operators (requant.cpp), as sessions do by themselves.
bool Legalize(Graph& graph, PassContext& context);
/// Plans the graph and records in every node the memory in use while it runs (used_memory.cpp).
bool AnnotateUsedMemory(Graph& graph, PassContext& context);

}  // namespace requant
