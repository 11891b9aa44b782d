#pragma once

#include "plan/builder.h"

namespace requant {

/// Appends the step that copies slot `from` to slot `to` of one value, which has layout `layout`.
void AddLayoutStep(PlanBuilder& builder, const Value& value, int from, int to, Layout layout);

/// Appends a step of `node` that transposes each of `batch` matrices [rows, cols] of slot `from`,
/// whose elements have 1 or 4 bytes, into slot `to`.
void AddTransposeStep(PlanBuilder& builder, const Node& node, int from, int to, size_t batch,
                      size_t rows, size_t cols);

}  // namespace requant
