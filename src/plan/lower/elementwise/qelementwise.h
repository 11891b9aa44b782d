#pragma once

#include <optional>

#include "kernels/elementwise/kernel.h"
#include "plan/builder.h"

namespace requant {

/// The parameters of a QLinearAdd except operands, sizes and clamp; nullopt where the vector
/// kernels of equally scaled tensors cannot compute it: another rounding, or dynamic scales.
std::optional<QAddParams> QAddOf(const PlanBuilder& builder, const Node& node);

/// Points to MakeQAddNarrow, which is loaded with the kernels for few bits.
extern QAddNarrow (*const kMakeQAddNarrow)(const QAddMultipliers&, QAddRange a, QAddRange b,
                                           int32_t out_zero, int32_t lo, int32_t hi);

/// Sets `addition.narrow` for operands with these codes, if that form exists; everything but the
/// operands must be set.
void FindNarrow(RequantizeMode mode, CodeRange a, CodeRange b, QAddParams& addition);

}  // namespace requant
