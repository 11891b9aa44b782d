#include "train/optimizer.h"

#include <cmath>

namespace requant {

void Optimizer::Update(const TrainOptions& options, double rate, double size, double decay,
                       std::vector<float>& values, std::vector<float>& gradient) {
  for (float& slope : gradient) {
    if (!std::isfinite(slope)) slope = 0;
  }
  if (options.optimizer == TrainOptimizer::kAdam) {
    const auto kept = static_cast<float>(1 - rate * decay);
    for (float& value : values) value *= kept;
    adam_.Update(values, gradient, static_cast<float>(rate * size));
    return;
  }
  const auto step = static_cast<float>(rate);
  velocity_.resize(values.size());
  const auto momentum = static_cast<float>(options.momentum);
  const auto pull = static_cast<float>(decay);
  for (size_t i = 0; i < values.size(); ++i) {
    velocity_[i] = momentum * velocity_[i] + gradient[i] + pull * values[i];
    values[i] -= step * velocity_[i];
  }
}

void Optimizer::Fields(const TrainOptions& options, StateBytes& state, size_t count) {
  if (options.optimizer == TrainOptimizer::kAdam) return adam_.Fields(state, count);
  velocity_.resize(count);
  state.SameList(velocity_);
}

}  // namespace requant
