#include "train/scale_learner.h"

#include <algorithm>
#include <cmath>

namespace requant {

void ScaleLearner::Update(double rate, TensorQuantizationConfig& config) {
  constexpr float kMost = 3;  // up to 20 times finer or coarser than calibrated
  adam_.Update(logs_, gradient, static_cast<float>(std::ldexp(rate, 2 - config.bits)));
  for (size_t i = 0; i < logs_.size(); ++i) {
    logs_[i] = std::clamp(logs_[i], -kMost, kMost);
    config.scale[i] = start_[i] * std::exp(logs_[i]);
    gradient[i] = 0;
  }
}

}  // namespace requant
