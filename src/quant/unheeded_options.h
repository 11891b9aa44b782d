// Options that nothing in a network takes up.
#pragma once

#include "ir/graph.h"
#include "quant/record.h"
#include "quant/settings.h"

namespace requant {

/// Warns of settings for types that the network does not have and for operators that stay float
/// nonetheless, and of steps for recovery methods when none learns.
void NoteUnheededOptions(const Graph& graph, const QuantizeOptions& options,
                         QuantizationRecord& record);

}  // namespace requant
