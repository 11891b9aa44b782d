// Exponential moving average of the minimum and maximum of each sample: e_1 = x_1, e_i = m *
// e_(i-1) + (1 - m) * x_i (OneFlow's moving average observer, PyTorch's
// MovingAverageMinMaxObserver). It is frozen after stop_after samples (OneFlow's
// stop_update_after_iters).
//
// Sums of floats depend on their order, so merging two averages would not give the exact average.
// The observer keeps the ranges of the last n samples instead, where m^n < 2^-64: older ones have a
// weight that no double can show. The average is computed on demand.
#include <algorithm>
#include <cmath>
#include <vector>

#include "quant/observers/observer.h"
#include "quant/observers/scan.h"

namespace requant {
namespace {

class MovingAverageObserver : public Observer {
 public:
  MovingAverageObserver(double momentum, int64_t stop_after, bool with_zero)
      : momentum_(momentum), stop_after_(stop_after), with_zero_(with_zero) {
    constexpr double kLog2 = -44.36141955583649;  // ln 2^-64
    const double wanted = momentum > 0 ? std::ceil(kLog2 / std::log(momentum)) : 1;
    window_ = static_cast<size_t>(std::clamp(wanted, 1.0, 1048576.0));
  }

  const char* kind() const override { return "moving_average"; }
  void Observe(int, std::span<const float> values, int64_t) override {
    if (values.empty()) return;
    const Scan scan = ScanValues(values);
    const auto low = static_cast<double>(scan.low);
    const auto high = static_cast<double>(scan.high);
    if (!open_) sample_ = {with_zero_ ? 0.0 : low, with_zero_ ? 0.0 : high};
    sample_.min = std::min(sample_.min, low);
    sample_.max = std::max(sample_.max, high);
    open_ = true;
  }
  void EndSample(int) override {
    if (open_) Append(sample_);
    open_ = false;
  }
  void Fields(StateBytes& state, int) override {
    state.Value(count_);
    state.List(recent_);
  }
  Range Get() const override {
    if (recent_.empty()) return {};
    Range average = recent_[0];
    for (size_t i = 1; i < recent_.size(); ++i) {
      average.min = momentum_ * average.min + (1 - momentum_) * recent_[i].min;
      average.max = momentum_ * average.max + (1 - momentum_) * recent_[i].max;
    }
    return average;
  }

 protected:
  void MergeSame(const Observer& later, int) override {
    const auto& other = static_cast<const MovingAverageObserver&>(later);
    // The samples that the other observer has dropped count, too: if it stopped, they are its
    // latest.
    for (const Range& range : other.recent_) Append(range);
  }

 private:
  void Append(const Range& range) {
    if (stop_after_ > 0 && count_ >= stop_after_) return;
    ++count_;
    recent_.push_back(range);
    // With a stop, all samples before it may be the end of the window after a merge.
    const size_t limit =
        stop_after_ > 0 ? std::max(window_, static_cast<size_t>(stop_after_)) : window_;
    if (recent_.size() > limit) recent_.erase(recent_.begin());
  }

  double momentum_;
  int64_t stop_after_;
  bool with_zero_;
  size_t window_;
  int64_t count_ = 0;
  bool open_ = false;
  Range sample_;
  std::vector<Range> recent_;
};

}  // namespace

std::unique_ptr<Observer> MakeMovingAverage(const TensorQuantizationConfig& config) {
  return std::make_unique<MovingAverageObserver>(config.momentum, config.stop_after,
                                                 config.formula != ScaleFormula::kGoogle);
}

}  // namespace requant
