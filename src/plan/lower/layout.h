#pragma once

#include "plan/builder.h"

namespace requant {

/// Appends the step that copies slot `from` into slot `to` (layout `layout`) of one value.
void AddLayoutStep(PlanBuilder& builder, const Value& value, int from, int to, Layout layout);

}  // namespace requant
