// Proposes the range that holds the given percentage of all values, with equal shares outside at
// both tails, as in onnxruntime/python/tools/quantization/calibrate.py (compute_percentile). The
// values of one bin count as evenly spread.
#include <algorithm>
#include <cmath>

#include "quant/observers/histogram.h"

namespace requant {
namespace {

class PercentileObserver : public HistogramObserver {
 public:
  explicit PercentileObserver(double percentile) : percentile_(percentile) {}

  const char* kind() const override { return "percentile"; }
  Range Get() const override {
    if (total_ == 0 || !(max_ > min_)) return {std::min(min_, 0.0), std::max(max_, 0.0)};
    const double tail = static_cast<double>(total_) * (100 - percentile_) / 200;
    return {std::min(0.0, FromBelow(tail)), std::max(0.0, FromAbove(tail))};
  }

 private:
  double FromBelow(double target) const {
    double sum = 0;
    for (int bin = 0; bin < kBins; ++bin) {
      const auto count = static_cast<double>(counts_[static_cast<size_t>(bin)]);
      if (sum + count > target) return min_ + (bin + (target - sum) / count) * width();
      sum += count;
    }
    return max_;
  }
  double FromAbove(double target) const {
    double sum = 0;
    for (int bin = kBins - 1; bin >= 0; --bin) {
      const auto count = static_cast<double>(counts_[static_cast<size_t>(bin)]);
      if (sum + count > target) return min_ + (bin + 1 - (target - sum) / count) * width();
      sum += count;
    }
    return min_;
  }

  double percentile_;
};

}  // namespace

std::unique_ptr<Observer> MakePercentile(const TensorQuantizationConfig& config) {
  return std::make_unique<PercentileObserver>(config.percentile);
}

/// The magnitude that the percentage does not exceed.
double PercentileMagnitude(const Magnitudes& magnitudes, const TensorQuantizationConfig& config) {
  std::vector<float>& values = magnitudes.values;
  const double last = static_cast<double>(values.size() - 1);
  const auto index = static_cast<size_t>(std::ceil(last * config.percentile / 100));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(index),
                   values.end());
  return static_cast<double>(values[index]);
}

}  // namespace requant
