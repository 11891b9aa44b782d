// CombineParallelConv2D (TVM src/relay/transforms/combine_parallel_conv2d.cc)
// Before: a = Relu(Conv(x, W1, b1) + d1), c = Relu(Conv(x, W2) + d2)
// After:  a, c = Split(Relu(Conv(x, Concat(W1, W2), Concat(b1, 0)) + Concat(d1, d2)))
// Conditions: equal attributes, one group; constant weights that differ in their output channels
//   only. FoldConstant makes the new weights constant. Operators behind the layers move in front of
//   the Split while all layers have the same one: elementwise, with equal attributes and constants
//   that are one number or differ in their channels only. Nothing else may read the values between.
//   CombineParallelDense does the same. The pass is optional: fewer and wider layers are not always
//   faster, and one tensor has one quantization.
// Formula: every output channel is a sum of its own: y[o] = W[o] * x + b[o]. A layer without a bias
//   gets one of zeros, which may change the sign of a zero.
#include "passes/fuse/combine_parallel.h"

namespace requant {

bool CombineParallelConv2D(Graph& graph, PassContext&) {
  return CombineParallel(graph, ParallelLayer::kConv);
}

}  // namespace requant
