#pragma once

#include <set>

#include "ir/graph.h"

namespace requant {

/// "Shape or index" values: every value that is not float32, and every float value that is computed
/// from shapes alone (Shape -> Cast -> Mul -> Resize). They are never quantized.
std::set<const Value*> ShapeOrIndexValues(const Graph& graph);

}  // namespace requant
