// CombineParallelBatchMatmul
// Before: a = MatMul(x, y), c = MatMul(x, z)
// After:  a, c = Split(MatMul(x, Concat(y, z)))
// Conditions: y and z are dynamic, have more than two dimensions and differ in the last only; none
//   depends on the first product (it comes before it). The pass is optional: fewer and wider layers
//   are not always faster, and one tensor has one quantization.
// Formula: x [y z] = [x y, x z] for every matrix of the batch.
#include "passes/fuse/combine_parallel.h"

namespace requant {

bool CombineParallelBatchMatmul(Graph& graph, PassContext&) {
  return CombineParallel(graph, ParallelLayer::kBatchMatmul);
}

}  // namespace requant
