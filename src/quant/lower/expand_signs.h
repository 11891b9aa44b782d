// Activations of -1 and 1, as operators that every engine has.
#pragma once

#include "ir/graph.h"
#include "quant/stages.h"

namespace requant {

/// Sets record.expand_signs where an activation is bipolar.
void FindSigns(QuantizationRecord& record);

/// The model with Mul and Add, tables of one value, in place of bipolar activations
/// (numeric/sign_steps.h). Layers, sums and pools write the two codes of the plain grid, and their
/// readers read -1 and 1.
QuantizedModel ExpandSigns(const QuantizedModel& model);

/// The opposite, for files: makes such Mul and Add bipolar activations again.
void ContractSigns(QuantizedModel& model);

}  // namespace requant
