// Finds normalizations that are written out in parts.
#pragma once

#include <set>

#include "ir/graph.h"

namespace requant {

/// The operators of normalizations that are written out: everything between a value and that value
/// multiplied or divided by a reduction of it (a mean, a sum of squares, a norm). A variance has
/// the square of the value's range, and one scale for the statistics of all rows leaves the small
/// ones no codes, so the quantizer keeps these operators in float. `soi` are values that are no
/// data (quant/graph/soi.h). The nodes must be in order.
std::set<const Node*> FindStatistics(const Graph& graph, const std::set<const Value*>& soi);

}  // namespace requant
