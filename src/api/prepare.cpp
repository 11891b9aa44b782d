// Not where they are used: the compiler would call the functions themselves, which are among the
// tools.
#include "api/prepare.h"

#include "quant/file/spell_pairs.h"

namespace requant {

void (*const kPrepareBodies)(Graph& graph) = PrepareBodies;
bool (*const kJoinPairs)(Graph& graph) = JoinPairs;

}  // namespace requant
