// Small random graphs for passes and sessions. They are valid by construction (every node is
// inferred and evaluated when it is added), and depend on nothing but the seed.
//
// A fragment is a member function that adds a few nodes and returns their result, or nullptr if it
// could not; random_graph.cpp lists them with their weights, the other random_*.cpp define them.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "interpret/interpreter.h"
#include "ir/graph.h"
#include "support/random_graphs/dice.h"

namespace requant {

/// A graph with inferred types, and feeds that fit it.
struct RandomGraph {
  Graph graph;
  TensorMap feeds;
};

/// The interpreter's outputs, and the largest finite intermediate number (terms of sums may
/// cancel).
struct Expected {
  std::vector<Tensor> outputs;
  double magnitude = 1;
};
Expected Compute(const Graph& graph, const TensorMap& feeds,
                 RequantizeMode mode = RequantizeMode::kUpward);

class GraphMaker {
 public:
  /// `smooth`: without operators whose result jumps (rounding, casts to integers, Q/DQ), for passes
  /// that may round differently. `odd`: every other fragment is one of random_odd_layers.cpp, and
  /// none quantizes.
  GraphMaker(uint64_t seed, bool smooth, bool odd = false)
      : dice_(seed), smooth_(smooth), odd_(odd) {}

  RandomGraph Make();

 private:
  Graph& graph() { return out_.graph; }
  const Tensor& Known(const Value* value) const { return known_.at(value); }
  const Shape& ShapeOf(const Value* value) const { return Known(value).shape(); }
  bool IsFloatValue(const Value* value) const { return Known(value).dtype() == DType::kFloat32; }
  Value* Ints(const std::vector<int64_t>& values) { return Constant(Tensor::Vector(values)); }

  void Input(const Shape& shape);
  Value* Constant(Tensor tensor);
  Value* Floats(const Shape& shape, float low = -1, float high = 1);
  Value* Scalar(float value);
  /// Picks a float value of the graph, mostly a recent one; nullptr if none has that rank.
  Value* Pick(int64_t rank = -1);
  static AttributeMap With(std::vector<AttributeMap::Entry> entries);
  /// Adds the node if it is valid and its values are small enough to be compared.
  Value* Add(const std::string& op, const std::vector<Value*>& inputs, AttributeMap attributes = {},
             size_t outputs = 1, const std::string& domain = "");
  bool IsGood(const Tensor& tensor) const;
  Value* AddAny();
  void Finish();

  // --- layers, windows and reductions

  Value* MaybeBias(int64_t channels) { return dice_.Chance(50) ? Floats({channels}) : nullptr; }
  AttributeMap Window(int64_t kernel_h, int64_t kernel_w, bool dilated);
  Value* Conv();
  Value* ConvTranspose();
  Value* Dense();
  /// A product of two dynamic operands.
  Value* Product();
  Value* Normalization();
  Value* Pool();
  Value* Reduce();

  // --- elementwise

  Value* Binary();
  Value* Clamp();
  /// Any function of the operator table.
  Value* Unary();
  Value* Variadic();

  // --- movement

  Value* Transpose();
  Value* Reshape();
  /// A Reshape whose target is computed as exporters do: Shape -> Gather / Slice -> Concat.
  Value* ReshapeByShape(Value* x);
  Value* UnsqueezeOf(Value* x, const std::vector<int64_t>& axes);
  Value* SqueezeOrUnsqueeze();
  Value* Flatten();
  Value* SliceOf(Value* x, int64_t start, int64_t end, int64_t axis, int64_t step);
  Value* Slice();
  Value* Concat();
  Value* Split();
  Value* Pad();
  Value* Stretch();
  Value* Gather();

  // --- decomposed functions

  Value* LayerNorm();
  Value* Projection(Value* x, int64_t columns);
  Value* WholeAttention(Value* x);
  Value* Attention();
  Value* RmsNorm();
  Value* Einsum();
  Value* TableOfCodes();
  Value* BlockedWeights();
  /// A dilated convolution expressed by moving pixels to the batch, or sometimes something similar.
  Value* Atrous();
  Value* GroupNorm();
  /// A factor before a layer or after it, with operators in between.
  Value* ScaledLayer();
  Value* ExpandByShape();
  /// Activations as exporters decompose them.
  Value* Decomposed();

  // --- operators without effect, and quantization

  Value* Neutral();
  Value* Cast();
  Value* QuantizePair();
  /// A product of rows that become codes, each with its own scale.
  Value* RowCodes();
  /// The computation of an existing node again.
  Value* Repeat();
  Value* ConstantNode();
  Subgraph BranchBody(const Value* captured);
  Value* Branch();

  // --- layers that are hard to quantize

  Value* OddWeights(const Shape& shape);
  Value* ScalarOf(Value* x);
  Value* VectorProduct();
  Value* BatchedWeights();
  Value* AnyGemm();
  Value* AnyConv();
  Value* ConstantLayer();
  Value* OddRange();
  /// Any of these.
  Value* AddOdd();

  Dice dice_;
  bool smooth_, odd_;
  double limit_ = 50;  // of the magnitudes of floats
  int opset_ = 13;
  int symbolic_ = -1;
  RandomGraph out_;
  std::vector<Value*> pool_;
  std::unordered_map<const Value*, Tensor> known_;
};

}  // namespace requant
