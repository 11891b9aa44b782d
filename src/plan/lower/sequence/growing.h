#pragma once

#include "base/late_function.h"
#include "plan/builder.h"

namespace requant {

/// Adds the step of `node` that copies slot `rows`, which grows, to slot `dense` of the same value.
void AddDenseCopy(PlanBuilder& builder, const Node& node, int rows, int dense);
extern const LateFunction<decltype(AddDenseCopy)> kAddDenseCopy;

}  // namespace requant
