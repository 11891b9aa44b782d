#pragma once

#include <optional>

#include "base/late_function.h"
#include "kernels/elementwise/kernel.h"
#include "numeric/qadd.h"
#include "plan/builder.h"

namespace requant {

/// The parameters of a QLinearAdd except operands, sizes and clamp; nullopt where the vector
/// kernels of equally scaled tensors cannot compute it: another rounding, or dynamic scales.
std::optional<QAddParams> QAddOf(const PlanBuilder& builder, const Node& node);

/// MakeQAddNarrow is loaded with the kernels for few bits.
extern const LateFunction<decltype(MakeQAddNarrow)> kMakeQAddNarrow;

/// Sets `addition.narrow` for operands with these codes, if that form exists; everything but the
/// operands must be set.
void FindNarrow(RequantizeMode mode, CodeRange a, CodeRange b, QAddParams& addition);

}  // namespace requant
