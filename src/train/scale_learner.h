#pragma once

#include <vector>

#include "quant/sim/adam.h"
#include "quant/tensor_quantization_config.h"

namespace requant {

/// Scales as parameters: their logarithms learn, by Adam whatever the weights learn by, since their
/// gradients are sums over as many elements as the grid has.
class ScaleLearner {
 public:
  explicit ScaleLearner(const TensorQuantizationConfig& config)
      : gradient(config.scale.size()),
        scale(config.scale),
        start_(config.scale),
        logs_(config.scale.size()),
        bits_(config.bits) {}

  std::vector<float> gradient;  // d loss / d log(scale), summed
  std::vector<float> scale;

  /// A grid of b bits changes at 2^(2 - b) times the rate.
  void Update(double rate);
  /// Of one of the scales: what has been learned stays, relative to it.
  void Multiply(size_t i, float factor);

 private:
  std::vector<float> start_;
  std::vector<float> logs_;  // of scale / start
  Adam adam_;
  int bits_;
};

}  // namespace requant
