// Views the weights of convolutions and matrix products as matrices.
#pragma once

#include <cstdint>

#include "ir/graph.h"
#include "ops/op.h"

namespace requant {

/// A weight tensor as matrices [rows per group, k]. A row multiplies the inputs of one output
/// channel; the rows of group g are [g * rows / groups, (g + 1) * rows / groups).
struct WeightMatrix {
  int64_t groups = 1;
  int64_t rows = 0;  // rows of all groups
  int64_t k = 0;
  int64_t taps = 1;  // this many of the k columns are adjacent
  int64_t group_stride = 0;
  int64_t row_stride = 0;  // within a group
  int64_t k_stride = 0;    // from one `taps` columns to the next
  /// The number of different scales that rows may have; row r has that of r % scales. The groups of
  /// a ConvTranspose share theirs, since ONNX has one axis for them.
  int64_t scales = 0;
  int64_t rows_per_group() const { return rows / groups; }
  /// The index of an element in the tensor.
  int64_t At(int64_t row, int64_t column) const {
    return row / rows_per_group() * group_stride + row % rows_per_group() * row_stride +
           column / taps * k_stride + column % taps;
  }
};

/// nullptr if a layer is rows times a weight matrix, plus one number for each row, else the reason
/// why not. Layers are Conv and ConvTranspose of up to three spatial dimensions, Gemm and MatMul,
/// with float32 constants. All code that reads weights, of layers in float as well, asks this: the
/// quantizer, the simulator, training.
const char* WhyNoWeightMatrix(const Node& node, QuantRule rule);
inline bool HasWeightMatrix(const Node& node, QuantRule rule) {
  return WhyNoWeightMatrix(node, rule) == nullptr;
}

/// The matrix of a node's weights. Throws kInternal for a node that has none.
WeightMatrix ViewWeights(const Node& node, QuantRule rule);

}  // namespace requant
