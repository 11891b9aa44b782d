// Defines the pointers in a file of their own: a compiler that sees their values replaces calls
// through them by calls by name, which the main module cannot make (bindings/README.md).
#include "api/late_functions.h"

#include "api/prepare.h"
#include "quant/file/spell_pairs.h"

namespace requant {

void (*const kPrepareBodies)(Graph& graph) = PrepareBodies;
bool (*const kJoinPairs)(Graph& graph) = JoinPairs;

}  // namespace requant
