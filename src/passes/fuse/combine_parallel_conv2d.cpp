// CombineParallelConv2D
// Before: a = Conv(x, W1, b1), c = Conv(x, W2, b2)
// After:  a, c = Split(Conv(x, Concat(W1, W2), Concat(b1, b2)))
// Conditions: equal attributes, one group; constant weights that differ in their output channels
//   only; all or none with a bias. FoldConstant makes the new weights constant. The pass is
//   optional: fewer and wider layers are not always faster, and one tensor has one quantization.
// Formula: every output channel is a sum of its own: y[o] = W[o] * x + b[o].
#include "passes/fuse/combine_parallel.h"

namespace requant {

bool CombineParallelConv2D(Graph& graph, PassContext&) {
  return CombineParallel(graph, ParallelLayer::kConv);
}

}  // namespace requant
