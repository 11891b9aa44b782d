#include "train/scale_learner.h"

#include <algorithm>
#include <cmath>

namespace requant {
namespace {

/// A grid of one bit has no finer steps that would make up for a scale that is off. At twice the
/// rate, networks whose activations have one bit fall to chance: once all values of a layer round
/// to 0, those behind it learn no more.
constexpr int kExponentOfOneBit = -5;
/// Scales change by a factor of 20 at most, those of one bit by 4.
constexpr float kMost = 3, kMostOfOneBit = 1.3862944F;

}  // namespace

void ScaleLearner::Update(double rate) {
  const bool one_bit = bits_ == 1;
  const float most = one_bit ? kMostOfOneBit : kMost;
  for (float& slope : gradient) {
    if (!std::isfinite(slope)) slope = 0;
  }
  adam_.Update(logs_, gradient,
               static_cast<float>(std::ldexp(rate, one_bit ? kExponentOfOneBit : 2 - bits_)));
  for (size_t i = 0; i < logs_.size(); ++i) {
    logs_[i] = std::clamp(logs_[i], -most, most);
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
