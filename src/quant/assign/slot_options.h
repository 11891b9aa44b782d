// Finds the options of single slots.
#pragma once

#include <string>

#include "ir/graph.h"
#include "quant/config/record.h"
#include "quant/config/settings.h"

namespace requant {

/// Throws what CheckSettings throws, and kInvalidArgument for an observer that does not exist or
/// cannot watch such a tensor. `slot` is as in CheckSettings.
void CheckTensorSettings(const TensorSettings& settings, bool weights, const std::string& where,
                         const std::string& slot = {});

/// Sets the configs of slots for which OperatorSettings have settings of their own. Operators,
/// fusions and layers that write floats must be known; no slot may be joined yet. Throws
/// kInvalidArgument, naming operator and slot, for slots that an operator by name does not have,
/// whose quantization follows from others, or that never exist as integers; and
/// kInvalidQuantization for given scales and zero points that the slot cannot have.
void ApplySlotOptions(const Graph& graph, const QuantizeOptions& options,
                      QuantizationRecord& record);

}  // namespace requant
