// Evaluates whole graphs by the references of their operators: models (interpreter.h), and the
// bodies of If, Loop and Scan.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <vector>

#include "ops/op.h"

namespace requant {

using KnownValues = std::map<const Value*, Tensor>;
using ValueObserver = std::function<void(const Value&, const Tensor&)>;

/// Returns the outputs in graph order. `known` must have all inputs without a constant of their
/// own, and may have other values. Outputs may share memory with inputs and constants. `observe`,
/// if any, is called with every computed value, in order. Throws kInvalidModel for an output that
/// nothing computes, and what an operator throws.
std::vector<Tensor> EvaluateGraph(const Graph& graph, KnownValues known, RequantizeMode requantize,
                                  const ValueObserver& observe = {});

/// Evaluates the graph for the inputs that are not constants, in order.
std::vector<Tensor> EvaluateGraph(const Graph& graph, std::span<const Tensor* const> inputs,
                                  RequantizeMode requantize);

/// The types of the outputs when the inputs (all of them, in order) have these types. Where a dtype
/// or shape is undefined, the graph's own declaration holds.
std::vector<ValueType> InferGraph(const Graph& graph, std::span<const ValueType> inputs);

/// Makes constants that subgraphs capture constants of the subgraphs, where they can be folded and
/// packed. Returns whether there were any.
bool SinkConstants(Graph& graph);

}  // namespace requant
