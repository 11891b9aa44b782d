// Pointers to functions among the extended operators (bindings/README.md). Code that is not among
// them may call these functions only through a pointer, and only when OperatorsLoaded().
#pragma once

#include "ir/graph.h"

namespace requant {

/// Points to PrepareBodies (api/prepare.h).
extern void (*const kPrepareBodies)(Graph& graph);
/// Points to JoinPairs (quant/file/spell_pairs.h).
extern bool (*const kJoinPairs)(Graph& graph);

}  // namespace requant
