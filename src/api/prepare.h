#pragma once

#include "ir/graph.h"

namespace requant {

/// PrepareForRun, in place: rewrites, passes, integer operators; bodies of control flow as well.
void Prepare(Graph& graph);
/// The bodies of control flow, as graphs of their own.
void PrepareBodies(Graph& graph);
/// Called through a pointer: the function is among the tools.
extern void (*const kPrepareBodies)(Graph& graph);
/// JoinPairs (quant/file/spell_pairs.h), likewise.
extern bool (*const kJoinPairs)(Graph& graph);

}  // namespace requant
