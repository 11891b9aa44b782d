#include "api/late_functions.h"

#include "api/json.h"

namespace requant {

const LateFunction<decltype(PrepareBodies)> kPrepareBodies{PrepareBodies, "PrepareBodies"};
const LateFunction<decltype(ProgramJson)> kProgramJson{ProgramJson, "ProgramJson"};
const LateFunction<decltype(JoinPairs)> kJoinPairs{JoinPairs, "JoinPairs"};

}  // namespace requant
