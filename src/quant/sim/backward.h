// Gradients of operators by what they read (those of layers with a weight matrix are LayerMath's).
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "ir/graph.h"
#include "tensor/tensor.h"

namespace requant {

/// Whether OperatorGradients knows the operator. Layers with a weight matrix have gradients of
/// their own: ask Simulator::PassesGradients.
bool HasGradient(const Node& node);

class OperatorGradients {
 public:
  explicit OperatorGradients(const Graph& graph) : graph_(graph) {}

  /// d loss / d inputs, from d loss / d one of the outputs. `inputs` as the operator read them
  /// (empty where one is left out), `outputs` as it made them; inputs that are not `wanted` stay
  /// empty. What is no finite number becomes 0.
  std::vector<Tensor> Backward(const Node& node, const std::vector<Tensor>& inputs,
                               const std::vector<Tensor>& outputs, size_t output, const Tensor& dy,
                               const std::vector<bool>& wanted);

 private:
  struct Moved {
    bool known = false;
    Shape shape;                   // of the input
    std::vector<Tensor> steering;  // the other inputs, which say what goes where
    std::vector<int32_t> from;     // by element of the output: its input element + 1, 0 = none
  };

  std::vector<Tensor> Compute(const Node& node, const std::vector<Tensor>& inputs,
                              const std::vector<Tensor>& outputs, size_t output, const Tensor& dy,
                              const std::vector<bool>& wanted);
  const std::vector<int32_t>& Sources(const Node& node, const std::vector<Tensor>& inputs,
                                      size_t output);

  const Graph& graph_;
  std::map<std::pair<const Node*, size_t>, Moved> moved_;
};

}  // namespace requant
