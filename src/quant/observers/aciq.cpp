// Proposes the range that clips best if the values have a Laplace distribution: ACIQ (Banner et al.
// 2019, "Post training 4-bit quantization of convolutional networks for rapid-deployment",
// arXiv:1810.05723).
//
// A Laplace distribution around m with the mean deviation b = E|x - m|, clipped to m +- a and
// rounded to 2^M steps, has the expected squared error
//
//   2 b^2 e^(-a / b)  +  a^2 / (3 * 4^M)
//       clipping          rounding, (2 a / 2^M)^2 / 12
//
// Its derivative is 0 where x e^x = 3 * 4^M with x = a / b: x is 2.83 for 2 bits, 5.03 for 4, 9.89
// for 8. Values that are never negative, as behind a Relu, are one half of such a distribution
// around 0: steps are half as wide, so that x e^x = 12 * 4^M, and b = E[x].
#include <algorithm>
#include <cmath>

#include "quant/observers/histogram.h"

namespace requant {
namespace {

/// The x > 0 with x e^x = product, for a product above 1: Newton's method on x + log x - log
/// product, whose steps come from below and never pass the root.
double SolveProduct(double product) {
  const double target = std::log(product);
  double x = 1;
  for (int step = 0; step < 8; ++step) x -= (x + std::log(x) - target) * x / (x + 1);
  return x;
}

double LargestDeviation(const TensorQuantizationConfig& config, bool one_sided) {
  const double codes = static_cast<double>(config.quant_max - config.quant_min) + 1;
  return SolveProduct((one_sided ? 12 : 3) * codes * codes);
}

class AciqObserver : public HistogramObserver {
 public:
  explicit AciqObserver(const TensorQuantizationConfig& config)
      : config_(ObservedSettings(config)) {}

  const char* kind() const override { return "aciq"; }
  Range Get() const override {
    const Range full{std::min(min_, 0.0), std::max(max_, 0.0)};
    if (total_ == 0 || !(max_ > min_)) return full;
    const bool one_sided = !config_.symmetric() && (min_ >= 0 || max_ <= 0);
    const double middle = one_sided || config_.symmetric() ? 0 : Mean();
    const double reach = LargestDeviation(config_, one_sided) * MeanDeviation(middle);
    return {std::clamp(middle - reach, full.min, 0.0), std::clamp(middle + reach, 0.0, full.max)};
  }

 private:
  double Middle(size_t bin) const { return min_ + (static_cast<double>(bin) + 0.5) * width(); }
  double Mean() const {
    double sum = 0;
    for (size_t bin = 0; bin < counts_.size(); ++bin) {
      sum += static_cast<double>(counts_[bin]) * Middle(bin);
    }
    return sum / static_cast<double>(total_);
  }
  double MeanDeviation(double middle) const {
    double sum = 0;
    for (size_t bin = 0; bin < counts_.size(); ++bin) {
      sum += static_cast<double>(counts_[bin]) * std::fabs(Middle(bin) - middle);
    }
    return sum / static_cast<double>(total_);
  }

  TensorQuantizationConfig config_;
};

}  // namespace

std::unique_ptr<Observer> MakeAciq(const TensorQuantizationConfig& config) {
  return std::make_unique<AciqObserver>(config);
}

/// The magnitude at which weights that are distributed around 0 are clipped.
double AciqMagnitude(const Magnitudes& magnitudes, const TensorQuantizationConfig& config) {
  double sum = 0;
  float largest = 0;
  for (const float value : magnitudes.values) {
    sum += static_cast<double>(value);
    largest = std::max(largest, value);
  }
  const double deviation = sum / static_cast<double>(magnitudes.values.size());
  return std::min(static_cast<double>(largest), LargestDeviation(config, false) * deviation);
}

}  // namespace requant
