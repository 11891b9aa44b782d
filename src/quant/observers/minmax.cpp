#include <algorithm>

#include "quant/observers/observer.h"
#include "quant/observers/scan.h"

namespace requant {
namespace {

class MinMaxObserver : public Observer {
 public:
  /// `with_zero`: start with the range [0, 0]. Only OneFlow's google formula needs ranges without
  /// 0.
  explicit MinMaxObserver(bool with_zero) : seen_(with_zero) {}

  const char* kind() const override { return "minmax"; }
  void Observe(int, std::span<const float> values, int64_t) override {
    if (values.empty()) return;
    const Scan scan = ScanValues(values);
    AddRange({static_cast<double>(scan.low), static_cast<double>(scan.high)});
  }
  bool takes_range() const override { return true; }
  void AddRange(const Range& range) override {
    range_.min = seen_ ? std::min(range_.min, range.min) : range.min;
    range_.max = seen_ ? std::max(range_.max, range.max) : range.max;
    seen_ = true;
  }
  void Fields(StateBytes& state, int) override {
    state.Value(seen_);
    state.Value(range_);
  }
  Range Get() const override { return range_; }

 protected:
  void MergeSame(const Observer& later, int) override {
    const auto& other = static_cast<const MinMaxObserver&>(later);
    if (other.seen_) AddRange(other.range_);
  }

 private:
  Range range_;
  bool seen_;
};

}  // namespace

std::unique_ptr<Observer> MakeMinMax(const TensorQuantizationConfig& config) {
  return std::make_unique<MinMaxObserver>(config.formula != ScaleFormula::kGoogle);
}

double LargestMagnitude(const Magnitudes& magnitudes, const TensorQuantizationConfig&) {
  return static_cast<double>(*std::max_element(magnitudes.values.begin(), magnitudes.values.end()));
}

}  // namespace requant
