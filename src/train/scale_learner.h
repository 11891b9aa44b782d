#pragma once

#include <vector>

#include "quant/sim/adam.h"

namespace requant {

/// Scales as parameters: their logarithms learn, by Adam whatever the weights learn by, since their
/// gradients are sums over as many elements as the grid has.
class ScaleLearner {
 public:
  explicit ScaleLearner(const std::vector<float>& scale)
      : gradient(scale.size()), start_(scale), logs_(scale.size()) {}

  std::vector<float> gradient;  // d loss / d log(scale), summed

  void Update(double rate, std::vector<float>& scale);

 private:
  std::vector<float> start_;
  std::vector<float> logs_;  // of scale / start
  Adam adam_;
};

}  // namespace requant
