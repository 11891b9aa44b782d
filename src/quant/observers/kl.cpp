// Proposes the threshold T for |x| whose quantized histogram has the least Kullback-Leibler
// divergence from the clipped one (Migacz 2017, "8-bit Inference with TensorRT"), in the form of
// PPQ (ppq/quantization/observer/range.py, hist_to_scale_offset): 4096 bins of |x|, of which the
// first 0.2 % are emptied; thresholds at multiples of the number of levels; zeros of the histogram
// stay zeros in the quantized distribution. The number of levels is 2^(bits-1), or 2^bits for
// unsigned integers of values that are never negative. The range is [max(min, -T), min(max, T)].
//
// A divergence is meaningless for a few values: with fewer than 10 for each bin (class scores of
// some samples) the range stays whole, where PPQ would cut it at random.
#include <algorithm>
#include <cmath>
#include <limits>

#include "quant/observers/histogram.h"

namespace requant {
namespace {

class KlObserver : public HistogramObserver {
 public:
  explicit KlObserver(const TensorQuantizationConfig& config)
      : bits_(config.bits), is_unsigned_(!config.symmetric()) {}
  const char* kind() const override { return "kl"; }

  void Observe(int pass, std::span<const float> values, int64_t row) override {
    if (pass == 0) return HistogramObserver::Observe(pass, values, row);
    if (counts_.empty()) counts_.assign(kBins, 0);
    total_ += values.size();
    const double largest = Largest();
    if (!(largest > 0)) return;
    const double scale = kBins / largest;
    for (const float value : values) {
      const double position = std::fabs(static_cast<double>(value)) * scale;
      ++counts_[static_cast<size_t>(std::min(position, kBins - 1.0))];
    }
  }

  Range Get() const override {
    const double largest = Largest();
    if (total_ < 10 * kBins || !(largest > 0)) return {min_, max_};
    const double threshold = largest * Threshold() / kBins;
    return {std::max(min_, -threshold), std::min(max_, threshold)};
  }

 private:
  double Largest() const { return std::max(std::fabs(min_), std::fabs(max_)); }

  /// The threshold with the least divergence, in bins.
  int Threshold() const {
    const int width = bits_ - (is_unsigned_ && min_ >= 0 ? 0 : 1);
    if (width >= 12) return kBins;
    const int levels = 1 << width;
    std::vector<double> histogram(counts_.begin(), counts_.end());
    constexpr int kEmptied = kBins * 2 / 1000;
    for (int i = 0; i < kEmptied; ++i) histogram[static_cast<size_t>(i)] = 0;
    histogram[kEmptied] = 1;
    double total = 0;
    for (const double count : histogram) total += count;
    int best = kBins;
    double least = std::numeric_limits<double>::infinity();
    double outside = total;
    int summed = 0;
    for (int range = levels; range <= kBins; range += levels) {
      for (; summed < range; ++summed) outside -= histogram[static_cast<size_t>(summed)];
      const double loss = Divergence(histogram, range, range / levels, outside, total);
      if (loss < least) {
        least = loss;
        best = range;
      }
    }
    return best;
  }

  static constexpr double kEpsilon = 1e-30;

  /// The divergence sum p log10(p / q), where the last bin of p holds all outliers.
  static double Divergence(const std::vector<double>& histogram, int range, int merged,
                           double outside, double total) {
    const double inside = total - outside;
    double loss = 0;
    for (int first = 0; first < range; first += merged) {
      double sum = 0;
      int filled = 0;
      for (int i = first; i < first + merged; ++i) {
        sum += histogram[static_cast<size_t>(i)];
        filled += histogram[static_cast<size_t>(i)] > 0;
      }
      for (int i = first; i < first + merged; ++i) {
        const double count = histogram[static_cast<size_t>(i)];
        const double p = (count + (i == range - 1 ? outside : 0)) / total;
        if (!(p > 0)) continue;
        // The last bin of p may hold outliers where q is 0, if the bin itself is empty.
        const double q = count > 0 ? sum / filled / inside : 0;
        loss += p * (std::log10(p + kEpsilon) - std::log10(q + kEpsilon));
      }
    }
    return loss;
  }

  int bits_;
  bool is_unsigned_;
};

}  // namespace

std::unique_ptr<Observer> MakeKl(const TensorQuantizationConfig& config) {
  return std::make_unique<KlObserver>(config);
}

double KlMagnitude(const Magnitudes& magnitudes, const TensorQuantizationConfig& config) {
  KlObserver observer(config);
  for (int pass = 0; pass < observer.passes(); ++pass) {
    const auto values = static_cast<int64_t>(magnitudes.values.size());
    observer.Observe(pass, magnitudes.values, values);
  }
  return observer.Get().max;
}

}  // namespace requant
