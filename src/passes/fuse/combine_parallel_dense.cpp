// CombineParallelDense
// Before: a = Gemm(x, W1, b1), c = Gemm(x, W2, b2); or MatMul(x, W1), MatMul(x, W2)
// After:  a, c = Split(Gemm(x, Concat(W1, W2), Concat(b1, b2))); or the same of MatMul
// Conditions: equal attributes; constant matrices that differ in their columns only; all or none
//   with a bias of one number for each column. FoldConstant makes the new weights constant. The
//   pass is optional: fewer and wider layers are not always faster, and one tensor has one
//   quantization.
// Formula: x [W1 W2] = [x W1, x W2].
#include "passes/fuse/combine_parallel.h"

namespace requant {

bool CombineParallelDense(Graph& graph, PassContext&) {
  return CombineParallel(graph, ParallelLayer::kDense);
}

}  // namespace requant
