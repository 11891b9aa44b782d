// Finds values whose channels may be scaled together without changing what the network computes.
#pragma once

#include <map>
#include <vector>

#include "ir/graph.h"

namespace requant {

/// Values whose channel c may be multiplied by a factor f_c > 0: it multiplies the constants of
/// what makes the values (layers, LayerNormalization) and divides the weights of everything that
/// reads them. Only operators that let factors through lie between them.
struct ScalingGroup {
  std::vector<Node*> makers;
  std::vector<Node*> readers;         // layers that read a value of the group in slot 0
  std::map<const Value*, int> axes;   // the values, and their channel axes
  std::vector<const Value*> clipped;  // results of Clip(0, bound)
  double bound = 0;                   // the least of those bounds; 0 without any
  bool gated = false;                 // a product lies between a maker and a reader
  int64_t channels = 0;
};

/// Finds the groups. Layers are Conv, Gemm and MatMul with float constants that nobody shares;
/// LayerNormalization, RMSNormalization and SimplifiedLayerNormalization make values, too. Relu,
/// LeakyRelu, PRelu, Clip(0, bound), sums of equal shapes, pools and the Flatten of single
/// pixels let factors through. A product of two values lets the factors of one of them through, as
/// (f a) b = f (a b): the gated blocks of transformers, down(act(gate(x)) * up(x)), are equalized
/// between up and down. Every value is in at most one group; values that anything else reads or
/// makes are in none.
std::vector<ScalingGroup> FindScalingGroups(const Graph& graph);

/// Whether a normalization makes values of the group, or a product lies in it. Such values have
/// loud channels in trained transformers.
bool IsOfTransformer(const ScalingGroup& group);

}  // namespace requant
