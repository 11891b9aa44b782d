// Float operators that the simulator computes itself: the references in src/ops are written to be
// read, and learning runs these operators thousands of times.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"

namespace requant {

/// The result of a float32 Relu, Clip, Add of equal shapes, MatMul of as many matrices, Softmax
/// along rows or MaxPool, equal to the reference's; nullopt for any other operator.
std::optional<Tensor> EvaluateFast(const Node& node, const std::vector<const Tensor*>& inputs);

}  // namespace requant
