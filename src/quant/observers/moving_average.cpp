// Exponential moving average of every sample's minimum and maximum: e_1 = x_1,
// e_i = m * e_(i-1) + (1 - m) * x_i (OneFlow's moving average observer, PyTorch's
// MovingAverageMinMaxObserver).
//
// To be mergeable it is kept in two parts: e_n = m^n * x_1 + t_n with
// t_n = sum_i (1 - m) * m^(n - i) * x_i. Two runs joined: t = m^(n_b) * t_a + t_b, and x_1 of the
// first, which is exactly what one run over both would have given.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "quant/observers/observer.h"

namespace requant {
namespace {

class MovingAverageObserver : public Observer {
 public:
  explicit MovingAverageObserver(double momentum) : momentum_(momentum) {}

  void Observe(int, std::span<const float> values) override {
    if (values.empty()) return;
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    sample_.min = std::min(sample_.min, static_cast<double>(*low));
    sample_.max = std::max(sample_.max, static_cast<double>(*high));
    open_ = true;
  }
  void EndSample(int) override {
    if (!open_) return;
    if (count_ == 0) first_ = sample_;
    tail_.min = momentum_ * tail_.min + (1 - momentum_) * sample_.min;
    tail_.max = momentum_ * tail_.max + (1 - momentum_) * sample_.max;
    count_ += 1;
    sample_ = {};
    open_ = false;
  }
  void Merge(const Observer& later) override {
    const auto* other = dynamic_cast<const MovingAverageObserver*>(&later);
    if (other == nullptr || other->momentum_ != momentum_) {
      Fail(ErrorCode::kInvalidArgument, "only observers of the same kind can be merged");
    }
    if (count_ == 0) first_ = other->first_;
    const double decay = std::pow(momentum_, other->count_);
    tail_.min = decay * tail_.min + other->tail_.min;
    tail_.max = decay * tail_.max + other->tail_.max;
    count_ += other->count_;
  }
  Range Get() const override {
    const double decay = std::pow(momentum_, count_);
    return {decay * first_.min + tail_.min, decay * first_.max + tail_.max};
  }

 private:
  double momentum_;
  double count_ = 0;
  bool open_ = false;
  Range sample_, first_, tail_;
};

}  // namespace

std::unique_ptr<Observer> MakeMovingAverage(const TensorQuantizationConfig& config) {
  return std::make_unique<MovingAverageObserver>(config.momentum);
}

}  // namespace requant
