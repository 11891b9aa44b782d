#pragma once

#include "ir/graph.h"
#include "quant/record.h"

namespace requant {

/// Marks the quantized operators whose grids no integer operator has. After joining.
void MarkSimulated(const Graph& graph, QuantizationRecord& record);

}  // namespace requant
