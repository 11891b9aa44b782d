// Proposes the range with the least expected squared error of quantize-dequantize, rounding and
// clipping together, over the histogram (the idea of PPQ's MSE observer). Both ends shrink
// independently: a coarse sweep of each end in turn, then finer sweeps around the best range.
#include <algorithm>
#include <cmath>

#include "quant/grid/affine.h"
#include "quant/observers/histogram.h"

namespace requant {
namespace {

double SquaredError(const Range& range, double min, double width, std::span<const uint64_t> counts,
                    const TensorQuantizationConfig& config) {
  TensorQuantizationConfig trial = config;
  const Affine affine = AffineFromRange(range.min, range.max, config);
  affine.PutInto(trial);
  // Biases of layers that read signs make up for the mean of values that are never negative.
  const double shift = trial.threshold * static_cast<double>(affine.scale);
  const double scale = static_cast<double>(affine.scale);
  const bool plain =
      !config.exponential() && !config.bipolar() && config.rounding == RoundingPolicy::kHalfEven;
  const auto low = static_cast<double>(config.quant_min);
  const auto high = static_cast<double>(config.quant_max);
  double sum = 0;
  for (size_t bin = 0; bin < counts.size(); ++bin) {
    if (counts[bin] == 0) continue;
    const double x = min + (static_cast<double>(bin) + 0.5) * width;
    double error = 0;
    if (plain) {
      const double q = std::clamp(std::nearbyint(x / scale) + affine.offset, low, high);
      error = (q - affine.offset) * scale - x;
    } else {
      error = static_cast<double>(FakeQuantize(static_cast<float>(x), trial)) + shift - x;
    }
    sum += static_cast<double>(counts[bin]) * error * error;
  }
  return sum;
}

class MseObserver : public HistogramObserver {
 public:
  explicit MseObserver(const TensorQuantizationConfig& config)
      : config_(ObservedSettings(config)) {}
  const char* kind() const override { return "mse"; }
  Range Get() const override {
    if (total_ == 0 || !(max_ > min_)) return {min_, max_};
    return LeastSquaresRange(min_, max_, counts_, config_);
  }

 private:
  TensorQuantizationConfig config_;
};

}  // namespace

Range LeastSquaresRange(double min, double max, std::span<const uint64_t> counts,
                        const TensorQuantizationConfig& config) {
  const Range full{std::min(min, 0.0), std::max(max, 0.0)};
  const double width = (max - min) / static_cast<double>(counts.size());
  Range best = full;
  double error = SquaredError(best, min, width, counts, config);
  const bool together = config.symmetric();
  for (const double step : {0.05, 0.01, 0.002}) {
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
          // an empty range has scale 1, whatever the values are
          if (!(trial.max > trial.min)) continue;
          const double trial_error = SquaredError(trial, min, width, counts, config);
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

std::unique_ptr<Observer> MakeMse(const TensorQuantizationConfig& config) {
  return std::make_unique<MseObserver>(config);
}

namespace {

/// The scale with the least squared error of signs: the mean magnitude, as in XNOR-Net (Rastegari
/// et al. 2016, arXiv 1603.05279) and DoReFa-Net (Zhou et al. 2016, arXiv 1606.06160).
double MeanMagnitude(const Magnitudes& seen) {
  double sum = 0;
  double weight = 0;
  for (size_t i = 0; i < seen.values.size(); ++i) {
    const double share = seen.importance.empty() ? 1 : seen.importance[i];
    sum += share * static_cast<double>(seen.values[i]);
    weight += share;
  }
  if (weight > 0) return sum / weight;
  return MeanMagnitude({seen.values, {}});  // no input was ever other than 0
}

}  // namespace

/// Finds the clipping magnitude with the least squared error of quantize-dequantize.
double LeastSquaresMagnitude(const Magnitudes& seen, const TensorQuantizationConfig& config) {
  const auto& [magnitudes, importance] = seen;
  if (config.bipolar()) return MeanMagnitude(seen);
  const auto largest = static_cast<double>(*std::max_element(magnitudes.begin(), magnitudes.end()));
  double best = largest;
  double best_error = HUGE_VAL;
  const int steps = config.bits <= 4 ? 80 : 30;
  for (int step = 0; step <= steps; ++step) {
    const double candidate = largest * (1 - 0.6 * step / steps);
    const double scale = SymmetricScale(candidate, config);
    double error = 0;
    for (size_t i = 0; i < magnitudes.size(); ++i) {
      const double x = static_cast<double>(magnitudes[i]);
      const double q = config.exponential() ? RoundToSmallFloat(x / scale, config.small_float)
                                            : std::min(std::nearbyint(x / scale),
                                                       static_cast<double>(config.quant_max));
      const double d = x - q * scale;
      error += d * d * (importance.empty() ? 1 : importance[i]);
    }
    if (error < best_error) {
      best_error = error;
      best = candidate;
    }
  }
  return best;
}

/// Finds the range with the least squared error of quantize-dequantize: both ends shrink in turn.
Range LeastSquaresOfWeights(const ChannelWeights& weights, const TensorQuantizationConfig& config) {
  const auto [low, high] = std::minmax_element(weights.values.begin(), weights.values.end());
  const Range full{std::min(static_cast<double>(*low), 0.0),
                   std::max(static_cast<double>(*high), 0.0)};
  const auto least = static_cast<double>(config.quant_min);
  const auto most = static_cast<double>(config.quant_max);
  const auto error_of = [&](const Range& range) {
    const Affine affine = AffineOfActivation(range.min, range.max, config);
    const auto scale = static_cast<double>(affine.scale);
    const double lowest = least - affine.offset, highest = most - affine.offset;
    double sum = 0;
    for (size_t i = 0; i < weights.values.size(); ++i) {
      const auto x = static_cast<double>(weights.values[i]);
      const double d = std::clamp(std::nearbyint(x / scale), lowest, highest) * scale - x;
      sum += d * d * (weights.importance.empty() ? 1 : weights.importance[i]);
    }
    return sum;
  };
  Range best = full;
  double least_error = error_of(full);
  const int steps = config.bits <= 4 ? 40 : 20;
  for (int round = 0; round < 2; ++round) {
    for (double Range::*const end : {&Range::min, &Range::max}) {
      Range trial = best;
      for (int step = 0; step <= steps; ++step) {
        trial.*end = full.*end * (1 - 0.6 * step / steps);
        const double error = error_of(trial);
        if (error < least_error) {
          least_error = error;
          best = trial;
        }
      }
    }
  }
  return best;
}

}  // namespace requant
