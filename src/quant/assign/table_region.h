// Regions of elementwise functions of one 8-bit value, which one table computes.
#pragma once

#include "ir/graph.h"
#include "quant/config/record.h"

namespace requant {

/// Evaluates the region on `points` (float32, any number of them in one row) by the operators'
/// references. op.table must not be empty. Throws kInternal for operators that are not elementwise.
Tensor EvaluateRegion(const Graph& graph, const OperatorQuantization& op, const Tensor& points);

}  // namespace requant
