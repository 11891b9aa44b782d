// Gradients of matrix products of any operands: dynamic ones, batches of matrices, vectors, and
// Gemm with transposition and factors. LayerMath serves layers with a weight matrix.
#pragma once

#include <vector>

#include "ir/graph.h"
#include "tensor/tensor.h"

namespace requant {

bool IsProduct(const Node& node);

/// d loss / d inputs of a MatMul or Gemm, from d loss / d its output; inputs that are not `wanted`
/// stay empty.
std::vector<Tensor> ProductBackward(const Node& node, const std::vector<Tensor>& inputs,
                                    const Tensor& dy, const std::vector<bool>& wanted);

}  // namespace requant
