// What training makes smaller, and its gradients.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph.h"
#include "tensor/tensor.h"
#include "train/options.h"

namespace requant {

/// The values that losses look at: of an output behind a Softmax what goes into it.
std::vector<const Value*> LossEnds(const Graph& graph);

struct LossParts {
  double loss = 0;
  int64_t correct = 0, labelled = 0;  // answers
};

/// Of one end in one sample. `wanted`: of the float network; `label` below 0: not known.
/// Throws kInvalidArgument for a label that is no class, or of scores of several rows.
/// `gradient` receives d loss / d got, times `weight`.
///   scores  with p = softmax(got), row by row:
///           share * -log p[label] + (1 - share) * KL(softmax(wanted) || p)
///   values  sum (got - wanted)^2 / sum wanted^2
LossParts LossOf(const TrainOptions& options, const Tensor& got, const Tensor& wanted,
                 int64_t label, float weight, Tensor& gradient);

}  // namespace requant
