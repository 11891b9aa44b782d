// Values whose channels may be scaled together without changing what the network computes.
#pragma once

#include <map>
#include <vector>

#include "ir/graph.h"

namespace requant {

/// Channel c of every value of the group may be multiplied by a factor f_c > 0: what makes the
/// values (layers, LayerNormalization) is multiplied by it, and the weights of all that reads them
/// are divided. Between them lie only operators that let factors through.
struct ScalingGroup {
  std::vector<Node*> makers;
  std::vector<Node*> readers;         // layers; slot 0 is a value of the group
  std::map<const Value*, int> axes;   // the values, and which of their axes is the channel's
  std::vector<const Value*> clipped;  // results of Clip(0, bound)
  double bound = 0;                   // the least of those bounds; 0 without
  int64_t channels = 0;
};

/// Layers are Conv, Gemm and MatMul with float constants that nobody shares. Relu, Clip(0, bound),
/// sums of equal shapes, pools and the Flatten of single pixels let factors through. Every value is
/// in one group at most; values that anything else reads or makes are in none.
std::vector<ScalingGroup> FindScalingGroups(const Graph& graph);

}  // namespace requant
