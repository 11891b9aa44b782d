#pragma once

#include <vector>

#include "quant/config/tensor_quantization_config.h"
#include "quant/sim/adam.h"

namespace requant {

/// Learns scales as parameters, by their logarithms. They learn by Adam whatever the optimizer of
/// the weights, since their gradients are sums over all elements of a grid.
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

  /// Updates the scales; a grid of b bits learns at 2^(2 - b) times the rate, one of one bit at
  /// 1/32.
  void Update(double rate);
  /// Multiplies one scale and keeps what was learned relative to it.
  void Multiply(size_t i, float factor);
  /// Writes or reads what was learned.
  void Fields(StateBytes& state);

 private:
  std::vector<float> start_;
  std::vector<float> logs_;  // logarithms of scale / start
  Adam adam_;
  int bits_;
};

}  // namespace requant
