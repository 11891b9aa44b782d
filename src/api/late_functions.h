// Functions that are among the rarer operators (bindings/README.md), for code that is not: only
// through a pointer may it call them, and only when OperatorsLoaded().
#pragma once

#include "ir/graph.h"

namespace requant {

/// PrepareBodies (api/prepare.h).
extern void (*const kPrepareBodies)(Graph& graph);
/// JoinPairs (quant/file/spell_pairs.h).
extern bool (*const kJoinPairs)(Graph& graph);

}  // namespace requant
