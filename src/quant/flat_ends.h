// Which part of a value's range the tables that read it tell apart: far from 0 a Sigmoid, a Tanh or
// one side of a SiLU are flat.
#pragma once

#include "ir/graph.h"
#include "quant/observers/observer.h"
#include "quant/record.h"

namespace requant {

/// `range`, which was seen of the value of config `index` (a root, integers for the whole tensor),
/// without its ends where all tables that read the value are flat: codes are spent on what makes a
/// difference. Flat is what stays within a quarter of a step of the table's results. `range` as it
/// is where anything else reads the value or shares its scale.
Range WithoutFlatEnds(const Graph& graph, const QuantizationRecord& record, int index,
                      const Range& range);

}  // namespace requant
