// Integers that follow from scales which have changed.
#pragma once

#include <set>

#include "quant/stages.h"

namespace requant {

/// Makes integers anew for slots in `changed` (indices of configs that decide for themselves), and
/// for what depends on them. A changed slot of weights without a scale gets one by its observer.
/// `before` is the record before the changes. Throws kInvalidQuantization for layers whose bias
/// makes up for signs without a mean.
void RemakeIntegers(QuantizedModel& model, const QuantizationRecord& before,
                    const std::set<int>& changed);

}  // namespace requant
