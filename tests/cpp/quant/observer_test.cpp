#include "quant/observers/observer.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "model.h"
#include "quant/affine.h"

namespace requant {
namespace {

TensorQuantizationConfig ConfigOf(const std::string& observer, double percentile = 99.99) {
  TensorQuantizationConfig config;
  ApplySettings({.observer = observer, .percentile = percentile, .momentum = 0.9}, false, config);
  return config;
}

using Samples = std::vector<std::vector<float>>;

Range Show(Observer& observer, const Samples& samples) {
  for (int pass = 0; pass < observer.passes(); ++pass) {
    for (const auto& sample : samples) {
      observer.Observe(pass, sample);
      observer.EndSample(pass);
    }
  }
  return observer.Get();
}

Samples RandomSamples(int count, size_t size) {
  Noise noise(7);
  Samples samples;
  for (int i = 0; i < count; ++i) {
    std::vector<float> sample(size);
    for (float& value : sample) value = noise.Normal() * (1.0f + 0.1f * static_cast<float>(i));
    samples.push_back(std::move(sample));
  }
  return samples;
}

TEST(Observer, MinMax) {
  auto observer = MakeObserver(ConfigOf("minmax"));
  const Range range = Show(*observer, {{1, 2}, {-3, 0.5f}, {}, {5}});
  EXPECT_EQ(range.min, -3);
  EXPECT_EQ(range.max, 5);
  auto positive = MakeObserver(ConfigOf("minmax"));
  EXPECT_EQ(Show(*positive, {{1, 2}}).min, 0);
}

TEST(Observer, MovingAverageByHand) {
  auto observer = MakeObserver(ConfigOf("moving_average"));
  const Range range = Show(*observer, {{-1, 1}, {-2, 3}, {-1, 2}});
  // 1 -> 0.9 + 0.3 = 1.2 -> 1.08 + 0.2 = 1.28; -1 -> -1.1 -> -1.09
  EXPECT_NEAR(range.max, 1.28, 1e-12);
  EXPECT_NEAR(range.min, -1.09, 1e-12);
}

TEST(Observer, PercentileAgainstSorting) {
  const Samples samples = RandomSamples(4, 5000);
  std::vector<float> sorted;
  for (const auto& sample : samples) sorted.insert(sorted.end(), sample.begin(), sample.end());
  std::sort(sorted.begin(), sorted.end());
  const double bin = static_cast<double>(sorted.back() - sorted.front()) / 4096;
  for (const double percentile : {90.0, 99.0, 99.9}) {
    auto observer = MakeObserver(ConfigOf("percentile", percentile));
    const Range range = Show(*observer, samples);
    const double tail = static_cast<double>(sorted.size()) * (100 - percentile) / 200;
    const auto index = static_cast<size_t>(tail);
    // Between the two sorted neighbours of the cut, give or take a bin.
    EXPECT_GE(range.min, static_cast<double>(sorted[index - 1]) - 2 * bin);
    EXPECT_LE(range.min, static_cast<double>(sorted[index]) + 2 * bin);
    EXPECT_LE(range.max, static_cast<double>(sorted[sorted.size() - index]) + 2 * bin);
    EXPECT_GE(range.max, static_cast<double>(sorted[sorted.size() - 1 - index]) - 2 * bin);
  }
  auto all = MakeObserver(ConfigOf("percentile", 100));
  const Range range = Show(*all, samples);
  EXPECT_NEAR(range.min, static_cast<double>(sorted.front()), 1e-6);
  EXPECT_NEAR(range.max, static_cast<double>(sorted.back()), 1e-6);
}

TEST(Observer, MseIgnoresALonelyOutlier) {
  Samples samples = RandomSamples(1, 20000);
  samples[0][17] = 300;
  TensorQuantizationConfig config = ConfigOf("mse");
  auto observer = MakeObserver(config);
  const Range range = Show(*observer, samples);
  const auto error = [&](const Range& trial) {
    const Affine affine = AffineFromRange(trial.min, trial.max, config);
    double sum = 0;
    for (const float x : samples[0]) {
      const double q = std::clamp(
          std::nearbyint(static_cast<double>(x / affine.scale)) + affine.offset, 0.0, 255.0);
      const double d = (q - affine.offset) * static_cast<double>(affine.scale) - x;
      sum += d * d;
    }
    return sum;
  };
  EXPECT_LT(error(range), error({-3, 300}));
}

TEST(Observer, MergingIsOnePass) {
  const Samples samples = RandomSamples(6, 500);
  const Samples first(samples.begin(), samples.begin() + 2);
  const Samples second(samples.begin() + 2, samples.end());
  for (const ObserverRow& row : ObserverTable()) {
    const TensorQuantizationConfig config = ConfigOf(row.name, 98);
    auto whole = MakeObserver(config);
    const Range wanted = Show(*whole, samples);
    auto a = MakeObserver(config);
    auto b = MakeObserver(config);
    // Merged after each pass; every shard continues with the merged range.
    for (int pass = 0; pass < a->passes(); ++pass) {
      if (pass > 0) {
        b = MakeObserver(config);
        b->Merge(*a);
      }
      for (const auto& sample : first) a->Observe(pass, sample), a->EndSample(pass);
      for (const auto& sample : second) b->Observe(pass, sample), b->EndSample(pass);
      a->Merge(*b);
    }
    const Range got = a->Get();
    EXPECT_NEAR(got.min, wanted.min, 1e-12) << row.name;
    EXPECT_NEAR(got.max, wanted.max, 1e-12) << row.name;
  }
  auto minmax = MakeObserver(ConfigOf("minmax"));
  EXPECT_THROW(minmax->Merge(*MakeObserver(ConfigOf("percentile"))), Error);
}

TEST(Observer, UnknownNamesListTheKnown) {
  try {
    MakeObserver(ConfigOf("oracle"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(error.context().hint.find("minmax"), std::string::npos);
  }
}

}  // namespace
}  // namespace requant
