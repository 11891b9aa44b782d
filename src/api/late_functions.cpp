// A file of their own: where a compiler sees what these constants are, it replaces calls through
// them by calls by name, which the main module cannot make of those (bindings/README.md).
#include "api/late_functions.h"

#include "api/prepare.h"
#include "quant/file/spell_pairs.h"

namespace requant {

void (*const kPrepareBodies)(Graph& graph) = PrepareBodies;
bool (*const kJoinPairs)(Graph& graph) = JoinPairs;

}  // namespace requant
