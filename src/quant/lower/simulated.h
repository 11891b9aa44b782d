#pragma once

#include "ir/graph.h"
#include "quant/config/record.h"

namespace requant {

/// Marks the quantized operators whose grids no integer operator has. Call it after joining.
void MarkSimulated(const Graph& graph, QuantizationRecord& record);

}  // namespace requant
