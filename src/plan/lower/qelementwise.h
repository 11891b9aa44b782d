#pragma once

#include <optional>

#include "kernels/elementwise/kernel.h"
#include "plan/builder.h"

namespace requant {

/// What a QLinearAdd adds, but for operands, sizes and clamp; nullopt where the vector kernels of
/// equally scaled tensors do not compute it: another rounding, or scales that are computed.
std::optional<QAddParams> QAddOf(const PlanBuilder& builder, const Node& node);

}  // namespace requant
