// Whole graphs by the references of their operators: the bodies of If, Loop and Scan.
#pragma once

#include <span>
#include <vector>

#include "ops/op.h"

namespace requant {

/// Outputs in graph order for the inputs that are no constants, in order. They may share memory
/// with inputs and constants. Throws what an operator throws.
std::vector<Tensor> EvaluateGraph(const Graph& graph, std::span<const Tensor* const> inputs,
                                  RequantizeMode requantize);

/// The types of the outputs when the inputs (all of them, in order) have these types; an undefined
/// dtype or shape leaves what the graph itself says.
std::vector<ValueType> InferGraph(const Graph& graph, std::span<const ValueType> inputs);

/// Constants that subgraphs capture become constants of the subgraphs, where they can be folded and
/// packed. Returns whether there were any.
bool SinkConstants(Graph& graph);

}  // namespace requant
