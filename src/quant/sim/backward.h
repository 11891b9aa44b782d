// Gradients of operators from what they read (LayerMath computes those of layers with a weight
// matrix).
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "ir/graph.h"
#include "tensor/tensor.h"

namespace requant {

/// Whether OperatorGradients supports the operator. For layers with a weight matrix ask
/// Simulator::PassesGradients.
bool HasGradient(const Node& node);

class OperatorGradients {
 public:
  explicit OperatorGradients(const Graph& graph) : graph_(graph) {}

  /// d loss / d inputs, from d loss / d one of the outputs. `inputs` are as the operator read them
  /// (empty where one is left out), `outputs` as it made them; inputs that are not `wanted` stay
  /// empty. Numbers that are not finite become 0.
  std::vector<Tensor> Backward(const Node& node, const std::vector<Tensor>& inputs,
                               const std::vector<Tensor>& outputs, size_t output, const Tensor& dy,
                               const std::vector<bool>& wanted);

 private:
  struct Moved {
    bool known = false;
    Shape shape;                   // shape of the input
    std::vector<Tensor> steering;  // the other inputs, which control the movement
    std::vector<int32_t> from;     // for each element of the output, its input element + 1, or 0
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
