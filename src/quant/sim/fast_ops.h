// Float operators that the simulator computes itself: the evaluators of src/ops are written to be
// read, and learning runs these thousands of times.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"

namespace requant {

/// The result of Relu, Clip, an Add of one shape or a MaxPool, all of float32: the same values as
/// the evaluator's. nullopt for whatever else.
std::optional<Tensor> EvaluateFast(const Node& node, const std::vector<const Tensor*>& inputs);

}  // namespace requant
