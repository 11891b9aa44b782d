#pragma once

#include "plan/builder.h"

namespace requant {

/// Appends the step that copies slot `from` to slot `to` of one value, which has layout `layout`.
void AddLayoutStep(PlanBuilder& builder, const Value& value, int from, int to, Layout layout);

}  // namespace requant
