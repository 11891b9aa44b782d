#include <algorithm>

#include "base/error.h"
#include "quant/observers/observer.h"

namespace requant {
namespace {

class MinMaxObserver : public Observer {
 public:
  void Observe(int, std::span<const float> values) override {
    if (values.empty()) return;
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    range_.min = std::min(range_.min, static_cast<double>(*low));
    range_.max = std::max(range_.max, static_cast<double>(*high));
  }
  void Merge(const Observer& later) override {
    const auto* other = dynamic_cast<const MinMaxObserver*>(&later);
    if (other == nullptr) {
      Fail(ErrorCode::kInvalidArgument, "only observers of the same kind can be merged");
    }
    range_.min = std::min(range_.min, other->range_.min);
    range_.max = std::max(range_.max, other->range_.max);
  }
  Range Get() const override { return range_; }

 private:
  Range range_;  // starts as [0, 0]: 0 is always inside
};

}  // namespace

std::unique_ptr<Observer> MakeMinMax(const TensorQuantizationConfig&) {
  return std::make_unique<MinMaxObserver>();
}

}  // namespace requant
