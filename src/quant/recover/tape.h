// Forward and backward through some nodes of the simulated network, for one sample: what learning
// on reconstruction loss needs. Rounding passes gradients straight through inside its range
// (Bengio et al. 2013); steps learn as in LSQ (Esser et al. 2020, arXiv 1902.08153).
#pragma once

#include <map>
#include <vector>

#include "quant/sim/backward.h"
#include "quant/sim/simulator.h"

namespace requant {

/// A weighted layer while it learns.
struct LayerGradient {
  std::vector<float> weights, bias;                   // in use
  std::vector<float> weight_gradient, bias_gradient;  // summed
};

class Tape {
 public:
  explicit Tape(Simulator& simulator) : simulator_(simulator), gradients_(simulator.graph()) {}

  std::map<const Node*, LayerGradient> layers;
  /// d loss / d log(scale), by root config; only those that are here learn.
  std::map<const TensorQuantizationConfig*, double> steps;
  /// Of every two elements one stays off its grid (QDrop: Wei et al. 2022, arXiv 2203.05740).
  bool drop = false;
  uint32_t seed = 0;

  /// Runs nodes [begin, end) on their grids from `values`, which receives the results.
  void Forward(Values& values, size_t begin, size_t end);
  /// What the last node computed, before its grid.
  const Tensor& LastRaw() const { return entries_.back().raw[0]; }
  /// `gradients`: of the nodes' outputs, by value. Adds to layers' and steps' gradients.
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
