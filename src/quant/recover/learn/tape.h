// Runs some nodes of the simulated network forward and backward for one sample, which learning on
// reconstruction loss needs. Rounding passes gradients straight through inside its range (Bengio et
// al. 2013); steps learn as in LSQ (Esser et al. 2020, arXiv 1902.08153).
#pragma once

#include <map>
#include <vector>

#include "quant/sim/backward.h"
#include "quant/sim/simulator.h"

namespace requant {

/// A weighted layer while it learns.
struct LayerGradient {
  std::vector<float> weights, bias;                   // present values
  std::vector<float> weight_gradient, bias_gradient;  // summed gradients
};

class Tape {
 public:
  explicit Tape(Simulator& simulator) : simulator_(simulator), gradients_(simulator.graph()) {}

  std::map<const Node*, LayerGradient> layers;
  /// d loss / d log(scale), by root config; only configs listed here learn.
  std::map<const TensorQuantizationConfig*, double> steps;
  /// Whether one of every two elements stays off its grid (QDrop: Wei et al. 2022, arXiv
  /// 2203.05740).
  bool drop = false;
  uint32_t seed = 0;

  /// Runs nodes [begin, end) on their grids from `values`, which receives the results.
  void Forward(Values& values, size_t begin, size_t end);
  /// The result of the last node before its grid.
  const Tensor& LastRaw() const { return entries_.back().raw[0]; }
  /// Adds to layers' and steps' gradients, from the gradients of the nodes' outputs.
  void Backward(const Values& values, std::map<const Value*, Tensor> gradients);

 private:
  struct Entry {
    size_t node;
    std::vector<Tensor> inputs;  // as the operator read them
    std::vector<Tensor> raw;     // outputs before their grid
  };

  uint32_t Mix(size_t node, size_t slot) const;
  Tensor OnGrid(const Tensor& x, const TensorQuantizationConfig& config, uint32_t mix) const;
  Tensor GridBackward(const Tensor& x, const Tensor& dy, const TensorQuantizationConfig& config,
                      uint32_t mix);
  std::vector<Tensor> LayerBackward(const Node& node, const Entry& entry, const Tensor& dy,
                                    bool wanted);

  Simulator& simulator_;
  OperatorGradients gradients_;
  std::vector<Entry> entries_;
};

}  // namespace requant
