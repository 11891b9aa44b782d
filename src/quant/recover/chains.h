// Pairs of layers with nothing between them but an activation: what equalization and channel
// splitting rewrite.
#pragma once

#include <vector>

#include "ir/graph.h"

namespace requant {

/// first -> (Relu, Clip or nothing) -> second, and nobody else reads what is between them.
struct LayerPair {
  Node* first = nullptr;
  Node* activation = nullptr;  // nullptr for none
  Node* second = nullptr;
  int64_t channels = 0;
};

/// Conv, Gemm and MatMul with constant weights and biases; Clip with lower bound 0.
std::vector<LayerPair> FindPairs(Graph& graph);

/// The weights as numbers that may be changed; `Store` puts them back as new constants.
class WeightEditor {
 public:
  WeightEditor(Graph& graph, Node* node);
  int64_t inputs() const { return inputs_; }
  int64_t outputs() const { return outputs_; }
  /// Largest magnitude of what output channel i is made with / of what reads input channel i.
  double OutputRange(int64_t i) const;
  double InputRange(int64_t i) const;
  void ScaleOutput(int64_t i, double factor);
  void ScaleInput(int64_t i, double factor);
  void Store();

  Tensor weights;
  Tensor bias;  // empty() without one

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
