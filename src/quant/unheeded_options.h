// Reports options that nothing in a network uses.
#pragma once

#include "ir/graph.h"
#include "quant/config/record.h"
#include "quant/config/settings.h"

namespace requant {

/// Warns of settings for types that the network does not have, for operators that stay float
/// nevertheless, and of steps for recovery methods when none learns.
void NoteUnheededOptions(const Graph& graph, const QuantizeOptions& options,
                         QuantizationRecord& record);

}  // namespace requant
