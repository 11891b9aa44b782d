// The losses of training, and their gradients.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph.h"
#include "tensor/tensor.h"
#include "train/options.h"

namespace requant {

/// The values that losses compare: the outputs, or the input of the Softmax that makes an output.
std::vector<const Value*> LossEnds(const Graph& graph);

struct LossParts {
  double loss = 0;
  int64_t correct = 0, labelled = 0;  // number of right answers
};

/// Whether the loss of an end's sample depends on the float network: not where labels alone count.
bool NeedsFloat(const TrainOptions& options, int64_t label);

/// The loss of one end in one sample. `wanted` is the value of the float network, empty where it is
/// not needed; `label` below 0 means unknown. `gradient` receives d loss / d got, times `weight`.
/// Throws kInvalidArgument for a label that is no class, and for labels of scores of several rows.
///   scores  with p = softmax(got), row by row:
///           share * -log p[label] + (1 - share) * KL(softmax(wanted) || p)
///   values  sum (got - wanted)^2 / sum wanted^2
LossParts LossOf(const TrainOptions& options, const Tensor& got, const Tensor& wanted,
                 int64_t label, float weight, Tensor& gradient);

}  // namespace requant
