// Finds pairs of layers with nothing but an activation between them, which equalization and channel
// splitting rewrite.
#pragma once

#include <vector>

#include "ir/graph.h"

namespace requant {

/// first -> (Relu, Clip or nothing) -> second, where nobody else reads the values in between.
struct LayerPair {
  Node* first = nullptr;
  Node* activation = nullptr;  // nullptr if there is none
  Node* second = nullptr;
  int64_t channels = 0;
};

/// Finds pairs of Conv, Gemm and MatMul with constant weights and biases; Clip must have lower
/// bound 0.
std::vector<LayerPair> FindPairs(Graph& graph);

/// The weights of a layer as numbers that may be changed; Store() puts them back as new constants.
class WeightEditor {
 public:
  WeightEditor(Graph& graph, Node* node);
  int64_t inputs() const { return inputs_; }
  int64_t outputs() const { return outputs_; }
  /// The largest magnitude of the weights of output channel i, or of those that multiply input
  /// channel i.
  double OutputRange(int64_t i) const;
  double InputRange(int64_t i) const;
  void ScaleOutput(int64_t i, double factor);
  void ScaleInput(int64_t i, double factor);
  void Store();

  Tensor weights;
  Tensor bias;  // empty() without a bias

 private:
  template <typename Body>
  void ForOutput(int64_t i, Body body) const;
  template <typename Body>
  void ForInput(int64_t i, Body body) const;

  Graph& graph_;
  Node* node_;
  int64_t inputs_ = 0, outputs_ = 0, groups_ = 1, taps_ = 1;
  bool rows_first_ = true;  // [outputs][inputs / groups][taps], else [inputs][outputs]
};

}  // namespace requant
