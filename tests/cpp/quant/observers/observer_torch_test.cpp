// The observers against PyTorch's (make_observer_values.py) on the same numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "base/lcg.h"
#include "quant/grid/affine.h"
#include "quant/observers/observer.h"
#include "quant/observers/observer_values.h"

namespace requant {
namespace {

constexpr int kSamples = 5, kChannels = 3, kLength = 40;

std::vector<std::vector<float>> Numbers() {
  Lcg random{12345};
  std::vector<std::vector<float>> samples;
  for (int sample = 0; sample < kSamples; ++sample) {
    std::vector<float> out;
    for (int i = 0; i < kChannels * kLength; ++i) {
      const double value =
          (static_cast<double>(random.Next() >> 16) - 32768) * std::ldexp(1.0, i / kLength - 13) +
          (sample - 1) * 0.25;
      out.push_back(static_cast<float>(value));
    }
    samples.push_back(std::move(out));
  }
  return samples;
}

TEST(ObserverTorch, SameRangesAndScales) {
  const auto samples = Numbers();
  for (const TorchRow& row : kTorchRows) {
    const std::string name = row.observer;
    const bool moving = name.starts_with("moving");
    const bool channel = name.ends_with("per_channel");
    const bool symmetric = channel || name.ends_with("symmetric");
    TensorQuantizationConfig config;
    TensorSettings settings;
    settings.observer = moving ? "moving_average" : "minmax";
    settings.momentum = 0.75;
    settings.symmetric = symmetric;
    settings.formula = ScaleFormula::kPpq;  // PyTorch divides by (qmax - qmin) / 2 as well
    ApplySettings(settings, false, config);
    const auto observer = MakeObserver(config);
    for (const std::vector<float>& sample : samples) {
      const std::span<const float> all(sample);
      observer->Observe(
          0, channel ? all.subspan(static_cast<size_t>(row.channel) * kLength, kLength) : all);
      observer->EndSample(0);
    }
    const Range range = observer->Get();
    if (moving) {  // PyTorch averages in float32
      EXPECT_NEAR(range.min, static_cast<double>(row.min), 1e-5) << name;
      EXPECT_NEAR(range.max, static_cast<double>(row.max), 1e-5) << name;
    } else {
      EXPECT_EQ(static_cast<float>(range.min), row.min) << name;
      EXPECT_EQ(static_cast<float>(range.max), row.max) << name;
    }
    const Affine affine = AffineFromRange(range.min, range.max, config);
    EXPECT_NEAR(static_cast<double>(affine.scale) / static_cast<double>(row.scale), 1, 3e-7)
        << name;
    EXPECT_EQ(affine.offset, row.zero_point) << name;
  }
}

}  // namespace
}  // namespace requant
