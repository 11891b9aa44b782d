// The extended operators' functions that the code of this folder calls from the main module.
#pragma once

#include "api/prepare.h"
#include "base/late_function.h"
#include "quant/file/spell_pairs.h"

namespace requant {

extern const LateFunction<decltype(PrepareBodies)> kPrepareBodies;
extern const LateFunction<decltype(JoinPairs)> kJoinPairs;

}  // namespace requant
