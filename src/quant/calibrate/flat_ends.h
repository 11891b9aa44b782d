// Finds the part of a value's range that the tables reading it distinguish: far from 0 a Sigmoid, a
// Tanh or one side of a SiLU is flat.
#pragma once

#include "ir/graph.h"
#include "quant/config/record.h"
#include "quant/observers/observer.h"

namespace requant {

/// The observed `range` of the value of config `index` (a root, integers for the whole tensor)
/// without its ends where all tables that read the value are flat, so that codes go where they make
/// a difference. A table is flat where it stays within a quarter of a step of its results. Returns
/// `range` unchanged where anything else reads the value or shares its scale.
Range WithoutFlatEnds(const Graph& graph, const QuantizationRecord& record, int index,
                      const Range& range);

}  // namespace requant
