// Runs any graph, float or integer, by the operators' references: slow and simple, the oracle for
// the fast sessions.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ops/control/subgraph.h"
#include "ops/op.h"

namespace requant {

using TensorMap = std::map<std::string, Tensor>;

struct InterpretOptions {
  RequantizeMode requantize = RequantizeMode::kUpward;
  /// Called with every computed value, in order; may be empty.
  ValueObserver observe;
};

/// Runs the graph and returns its outputs in order. Throws kInvalidArgument (missing or unknown
/// feed), kShapeMismatch, kTypeMismatch, or what an operator throws.
std::vector<Tensor> Interpret(const Graph& graph, const TensorMap& feeds,
                              const InterpretOptions& options = {});

/// Checks one feed against the declared type of a graph input: dtype, rank, known dims, and equal
/// symbols equal sizes (recorded in `symbols`).
void CheckFeed(const Value& input, const Tensor& feed, std::map<std::string, int64_t>& symbols);

}  // namespace requant
