#pragma once

#include <optional>

#include "kernels/elementwise/kernel.h"
#include "plan/builder.h"

namespace requant {

/// What a QLinearAdd adds, but for operands, sizes and clamp; nullopt where the vector kernels of
/// equally scaled tensors do not compute it: another rounding, or scales that are computed.
std::optional<QAddParams> QAddOf(const PlanBuilder& builder, const Node& node);

/// MakeQAddNarrow, which is loaded with the kernels for few bits.
extern QAddNarrow (*const kMakeQAddNarrow)(const QAddMultipliers&, QAddRange a, QAddRange b,
                                           int32_t out_zero, int32_t lo, int32_t hi);

/// Looks for `addition.narrow`, with all else but the operands set, of the codes that they hold.
void FindNarrow(RequantizeMode mode, CodeRange a, CodeRange b, QAddParams& addition);

}  // namespace requant
