// Whole graphs by the references of their operators: models (interpreter.h), the bodies of If, Loop
// and Scan.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <vector>

#include "ops/op.h"

namespace requant {

using KnownValues = std::map<const Value*, Tensor>;
using ValueObserver = std::function<void(const Value&, const Tensor&)>;

/// Outputs in graph order, from what is known: all inputs but those with a constant of their own,
/// which may be known, too. They may share memory with inputs and constants. `observe`, if any, is
/// called with every computed value, in order. Throws kInvalidModel for an output that nothing
/// computes, and what an operator throws.
std::vector<Tensor> EvaluateGraph(const Graph& graph, KnownValues known, RequantizeMode requantize,
                                  const ValueObserver& observe = {});

/// The same for the inputs that are no constants, in order.
std::vector<Tensor> EvaluateGraph(const Graph& graph, std::span<const Tensor* const> inputs,
                                  RequantizeMode requantize);

/// The types of the outputs when the inputs (all of them, in order) have these types; an undefined
/// dtype or shape leaves what the graph itself says.
std::vector<ValueType> InferGraph(const Graph& graph, std::span<const ValueType> inputs);

/// Constants that subgraphs capture become constants of the subgraphs, where they can be folded and
/// packed. Returns whether there were any.
bool SinkConstants(Graph& graph);

}  // namespace requant
