#pragma once

#include "ir/graph.h"

namespace requant {

/// PrepareForRun, in place: rewrites, passes, integer operators; bodies of control flow as well.
void Prepare(Graph& graph);
/// The bodies of control flow, as graphs of their own.
void PrepareBodies(Graph& graph);

}  // namespace requant
