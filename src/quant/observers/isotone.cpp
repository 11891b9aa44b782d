// Observes outputs of classifiers, where the largest value of a row has to stay the largest (PPQ's
// isotone observer). It collects the two largest values of each of the first 4096 rows, and
// proposes the range that keeps most of these pairs apart after quantization; among several such
// ranges, the one with the least squared error on the pairs.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "quant/grid/affine.h"
#include "quant/observers/histogram.h"

namespace requant {
namespace {

struct TopPair {
  float first, second;
};

constexpr size_t kPairs = 4096;

class IsotoneObserver : public Observer {
 public:
  explicit IsotoneObserver(const TensorQuantizationConfig& config)
      : config_(ObservedSettings(config)) {}

  const char* kind() const override { return "isotone"; }
  void Observe(int, std::span<const float> values, int64_t row) override {
    if (values.empty() || row < 1) return;
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    Widen({static_cast<double>(*low), static_cast<double>(*high)});
    const auto length = static_cast<size_t>(row);
    for (size_t at = 0; at + length <= values.size() && length > 1; at += length) {
      TopPair top{-std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()};
      for (const float value : values.subspan(at, length)) {
        if (value > top.first) {
          top = {value, top.first};
        } else if (value > top.second) {
          top.second = value;
        }
      }
      Append(top);
    }
  }
  void Fields(StateBytes& state, int) override {
    state.Value(range_);
    state.List(pairs_);
  }
  Range Get() const override {
    const bool together = config_.symmetric();
    Range best = range_;
    double least = Cost(best);
    for (int low = 0; low < (together ? 1 : 32); ++low) {
      for (int high = 0; high < 64; ++high) {
        Range trial{range_.min * (1 - low / 32.0), range_.max * (1 - high / 64.0)};
        if (together) trial.min = range_.min * (1 - high / 64.0);
        const double cost = Cost(trial);
        if (cost < least) {
          least = cost;
          best = trial;
        }
      }
    }
    return best;
  }

 protected:
  void MergeSame(const Observer& later, int) override {
    const auto& other = static_cast<const IsotoneObserver&>(later);
    Widen(other.range_);
    for (const TopPair& pair : other.pairs_) Append(pair);
  }

 private:
  void Widen(const Range& range) {
    range_.min = std::min(range_.min, range.min);
    range_.max = std::max(range_.max, range.max);
  }
  void Append(const TopPair& pair) {
    if (pairs_.size() < kPairs) pairs_.push_back(pair);
  }

  /// The cost of a range: the number of pairs that become equal, plus their squared error relative
  /// to the range to break ties.
  double Cost(const Range& range) const {
    TensorQuantizationConfig trial = config_;
    const Affine affine = AffineFromRange(range.min, range.max, trial);
    affine.PutInto(trial);
    const double span = std::max(range_.max - range_.min, 1e-30);
    double lost = 0;
    double error = 0;
    for (const TopPair& pair : pairs_) {
      const float first = FakeQuantize(pair.first, trial);
      const float second = FakeQuantize(pair.second, trial);
      lost += pair.first > pair.second && !(first > second);
      const double a = static_cast<double>(first - pair.first) / span;
      const double b = static_cast<double>(second - pair.second) / span;
      error += a * a + b * b;
    }
    return lost + error / (1.0 + 2.0 * static_cast<double>(pairs_.size()));
  }

  TensorQuantizationConfig config_;
  Range range_;
  std::vector<TopPair> pairs_;
};

}  // namespace

std::unique_ptr<Observer> MakeIsotone(const TensorQuantizationConfig& config) {
  return std::make_unique<IsotoneObserver>(config);
}

}  // namespace requant
