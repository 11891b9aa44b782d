#include "train/scale_learner.h"

#include <algorithm>
#include <cmath>

namespace requant {

namespace {

/// A grid of one bit has no finer steps that would make up for a scale that is off: networks whose
/// activations have one bit fall to chance at twice the rate, and learn at a sixteenth.
constexpr int kExponentOfOneBit = -4;

}  // namespace

void ScaleLearner::Update(double rate) {
  constexpr float kMost = 3;  // scales change by a factor of 20 at most
  for (float& slope : gradient) {
    if (!std::isfinite(slope)) slope = 0;
  }
  adam_.Update(logs_, gradient,
               static_cast<float>(std::ldexp(rate, bits_ == 1 ? kExponentOfOneBit : 2 - bits_)));
  for (size_t i = 0; i < logs_.size(); ++i) {
    logs_[i] = std::clamp(logs_[i], -kMost, kMost);
    scale[i] = start_[i] * std::exp(logs_[i]);
    gradient[i] = 0;
  }
}

void ScaleLearner::Multiply(size_t i, float factor) {
  start_[i] *= factor;
  scale[i] *= factor;
}

void ScaleLearner::Fields(StateBytes& state) {
  state.SameList(scale);
  state.SameList(start_);
  state.SameList(logs_);
  adam_.Fields(state, logs_.size());
}

}  // namespace requant
