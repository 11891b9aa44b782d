#pragma once

#include "ir/graph.h"

namespace requant {

/// Does in place what PrepareForRun does: rewrites, passes, integer operators, and the bodies of
/// control flow.
void Prepare(Graph& graph);
/// Prepares the bodies of control flow, as graphs of their own.
void PrepareBodies(Graph& graph);

}  // namespace requant
