#include <algorithm>

#include "quant/observers/observer.h"

namespace requant {
namespace {

class MinMaxObserver : public Observer {
 public:
  /// Only OneFlow's google formula wants to know that 0 is not in the range.
  explicit MinMaxObserver(bool with_zero) : seen_(with_zero) {}

  const char* kind() const override { return "minmax"; }
  void Observe(int, std::span<const float> values, int64_t) override {
    if (values.empty()) return;
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    Add({static_cast<double>(*low), static_cast<double>(*high)});
  }
  void Fields(StateBytes& state, int) override {
    state.Value(seen_);
    state.Value(range_);
  }
  Range Get() const override { return range_; }

 protected:
  void MergeSame(const Observer& later, int) override {
    const auto& other = static_cast<const MinMaxObserver&>(later);
    if (other.seen_) Add(other.range_);
  }

 private:
  void Add(const Range& range) {
    range_.min = seen_ ? std::min(range_.min, range.min) : range.min;
    range_.max = seen_ ? std::max(range_.max, range.max) : range.max;
    seen_ = true;
  }

  Range range_;
  bool seen_;
};

}  // namespace

std::unique_ptr<Observer> MakeMinMax(const TensorQuantizationConfig& config) {
  return std::make_unique<MinMaxObserver>(config.formula != ScaleFormula::kGoogle);
}

}  // namespace requant
