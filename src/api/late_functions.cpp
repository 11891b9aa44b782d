#include "api/late_functions.h"

namespace requant {

const LateFunction<decltype(PrepareBodies)> kPrepareBodies{PrepareBodies, "PrepareBodies"};
const LateFunction<decltype(JoinPairs)> kJoinPairs{JoinPairs, "JoinPairs"};

}  // namespace requant
