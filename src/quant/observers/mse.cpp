// The range with the least expected squared error of quantize-dequantize, rounding and clipping
// together, over the histogram (the idea of PPQ's MSE observer). Both ends shrink independently: a
// coarse sweep of each end in turn, then a finer one around the best.
#include <algorithm>
#include <cmath>

#include "quant/affine.h"
#include "quant/observers/histogram.h"

namespace requant {
namespace {

class MseObserver : public HistogramObserver {
 public:
  explicit MseObserver(const TensorQuantizationConfig& config) {
    config_.policy = config.policy;
    config_.bits = config.bits;
    config_.quant_min = config.quant_min;
    config_.quant_max = config.quant_max;
    config_.dtype = config.dtype;
  }

  Range Get() const override {
    Range best{std::min(min_, 0.0), std::max(max_, 0.0)};
    if (total_ == 0 || !(max_ > min_)) return best;
    const Range full = best;
    double error = Error(best);
    const bool together = config_.symmetric();
    for (const double step : {0.05, 0.01}) {
      for (int round = 0; round < 2; ++round) {
        const Range around = best;
        for (int i = -10; i <= 10; ++i) {
          for (int end = 0; end < (together ? 1 : 2); ++end) {
            Range trial = best;
            if (end == 0 || together) {
              trial.max = std::clamp(around.max + i * step * full.max, 0.0, full.max);
            }
            if (end == 1 || together) {
              trial.min = std::clamp(around.min + i * step * full.min, full.min, 0.0);
            }
            const double trial_error = Error(trial);
            if (trial_error < error) {
              error = trial_error;
              best = trial;
            }
          }
        }
      }
    }
    return best;
  }

 private:
  const char* kind() const override { return "mse"; }

  double Error(const Range& range) const {
    const Affine affine = AffineFromRange(range.min, range.max, config_);
    const double scale = static_cast<double>(affine.scale);
    double sum = 0;
    for (int bin = 0; bin < kBins; ++bin) {
      const uint64_t count = counts_[static_cast<size_t>(bin)];
      if (count == 0) continue;
      const double x = Center(bin);
      const double q = std::clamp(std::nearbyint(x / scale) + affine.offset,
                                  static_cast<double>(config_.quant_min),
                                  static_cast<double>(config_.quant_max));
      const double error = (q - affine.offset) * scale - x;
      sum += static_cast<double>(count) * error * error;
    }
    return sum;
  }

  TensorQuantizationConfig config_;
};

}  // namespace

std::unique_ptr<Observer> MakeMse(const TensorQuantizationConfig& config) {
  return std::make_unique<MseObserver>(config);
}

}  // namespace requant
