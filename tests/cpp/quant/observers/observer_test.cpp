#include "quant/observers/observer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/error.h"
#include "base/lcg.h"
#include "quant/grid/affine.h"
#include "quant/model.h"
#include "quant/observers/scan.h"

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

TEST(Observer, ScanOfEveryLength) {
  for (size_t count = 0; count < 70; ++count) {
    std::vector<float> values(count);
    Lcg random{static_cast<uint32_t>(count)};
    for (float& value : values) {
      value = static_cast<float>(static_cast<int32_t>(random.Next())) * 1e-9f;
    }
    const Scan scan = ScanValues(values);
    EXPECT_TRUE(scan.finite);
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    EXPECT_EQ(scan.low, count == 0 ? 0 : *low);
    EXPECT_EQ(scan.high, count == 0 ? 0 : *high);
    for (const float bad : {NAN, INFINITY, -INFINITY}) {
      for (size_t at = 0; at < count; ++at) {
        std::vector<float> spoiled = values;
        spoiled[at] = bad;
        EXPECT_FALSE(ScanValues(spoiled).finite) << at << " of " << count;
      }
    }
  }
  const std::vector<float> large(17, 3e38f);  // their sum is infinite, each of them is finite
  EXPECT_TRUE(ScanValues(large).finite);
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
    // The cut lies between its two sorted neighbors, within a bin.
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

/// Shards are transferred as bytes between the passes.
TEST(Observer, FourShardsAreOnePassToTheLastBit) {
  const Samples samples = RandomSamples(11, 500);
  const size_t bounds[] = {0, 2, 3, 8, 11};
  for (const ObserverRow& row : ObserverTable()) {
    for (const int64_t stop_after : {0, 4}) {
      TensorQuantizationConfig config = ConfigOf(row.name, 98);
      config.stop_after = stop_after;
      auto whole = MakeObserver(config);
      const Range wanted = Show(*whole, samples);
      std::vector<uint8_t> state;
      std::unique_ptr<Observer> total;
      for (int pass = 0; pass < whole->passes(); ++pass) {
        total.reset();
        std::vector<uint8_t> merged;
        for (int shard = 0; shard < 4; ++shard) {
          auto own = MakeObserver(config);
          if (pass > 0) {
            StateBytes from(state);
            own->Fields(from, pass - 1);
          }
          for (size_t i = bounds[shard]; i < bounds[shard + 1]; ++i) {
            own->Observe(pass, samples[i]);
            own->EndSample(pass);
          }
          StateBytes out;
          own->Fields(out, pass);
          const std::vector<uint8_t> bytes = out.Take();
          auto copy = MakeObserver(config);
          StateBytes in(bytes);
          copy->Fields(in, pass);
          if (total == nullptr) {
            total = std::move(copy);
          } else {
            total->Merge(*copy, pass);
          }
        }
        StateBytes out;
        total->Fields(out, pass);
        state = out.Take();
      }
      const Range got = total->Get();
      EXPECT_EQ(got.min, wanted.min) << row.name;
      EXPECT_EQ(got.max, wanted.max) << row.name;
    }
  }
  auto minmax = MakeObserver(ConfigOf("minmax"));
  EXPECT_THROW(minmax->Merge(*MakeObserver(ConfigOf("percentile")), 0), Error);
  const std::vector<uint8_t> cut(3);
  StateBytes in(cut);
  EXPECT_THROW(minmax->Fields(in, 0), Error);
}

TEST(Observer, MovingAverageStops) {
  TensorQuantizationConfig config = ConfigOf("moving_average");
  config.stop_after = 2;
  auto observer = MakeObserver(config);
  const Range range = Show(*observer, {{-1, 1}, {-2, 3}, {-100, 200}});
  EXPECT_NEAR(range.max, 1.2, 1e-12);
  EXPECT_NEAR(range.min, -1.1, 1e-12);
}

TEST(Observer, KlCutsALonelyOutlier) {
  Samples samples = RandomSamples(1, 50000);
  samples[0][17] = 60;
  for (const bool symmetric : {false, true}) {
    TensorQuantizationConfig config;
    ApplySettings({.symmetric = symmetric, .observer = "kl"}, false, config);
    auto observer = MakeObserver(config);
    const Range range = Show(*observer, samples);
    EXPECT_LT(range.max, 12);
    EXPECT_GT(range.max, 1);
  }
}

/// PPQ's hist_to_scale_offset, line by line, with explicit histograms.
TEST(Observer, KlAgainstPpqsLoops) {
  const Samples samples = RandomSamples(8, 8000);
  TensorQuantizationConfig config;
  ApplySettings({.symmetric = true, .observer = "kl"}, false, config);
  auto observer = MakeObserver(config);
  const Range got = Show(*observer, samples);
  double largest = 0;
  for (const auto& sample : samples) {
    for (const float x : sample) largest = std::max(largest, std::fabs(static_cast<double>(x)));
  }
  std::vector<double> histogram(4096);
  for (const auto& sample : samples) {
    for (const float x : sample) {
      const double place = std::fabs(static_cast<double>(x)) * (4096 / largest);
      histogram[static_cast<size_t>(std::min(place, 4095.0))] += 1;
    }
  }
  for (size_t i = 0; i < 8; ++i) histogram[i] = 0;
  histogram[8] = 1;
  double total = 0;
  for (const double count : histogram) total += count;
  double best_loss = 1e300;
  size_t best = 0;
  for (size_t range = 128; range < 4096 + 127; range += 128) {
    std::vector<double> p(histogram.begin(), histogram.begin() + static_cast<long>(range));
    for (size_t i = range; i < 4096; ++i) p[range - 1] += histogram[i];
    for (double& x : p) x /= total;
    const size_t ratio = range / 128;
    std::vector<double> q(range);
    double q_sum = 0;
    for (size_t group = 0; group < 128; ++group) {
      double sum = 0;
      double positive = 0;
      for (size_t i = 0; i < ratio; ++i) {
        sum += histogram[group * ratio + i];
        positive += histogram[group * ratio + i] > 0;
      }
      for (size_t i = 0; i < ratio; ++i) {
        const bool filled = histogram[group * ratio + i] > 0;
        q[group * ratio + i] = filled ? sum / positive : 0;
        q_sum += q[group * ratio + i];
      }
    }
    double loss = 0;
    for (size_t i = 0; i < range; ++i) {
      loss += p[i] * (std::log10(p[i] + 1e-30) - std::log10(q[i] / q_sum + 1e-30));
    }
    if (loss < best_loss) {
      best_loss = loss;
      best = range;
    }
  }
  EXPECT_NEAR(got.max, largest * static_cast<double>(best) / 4096, 1e-9);
}

/// Values with the density e^-|x - middle| / 2, or e^-x for x > 0 alone.
std::vector<float> LaplaceValues(size_t count, float middle, bool one_sided) {
  Lcg random{11};
  std::vector<float> values(count);
  for (float& value : values) {
    const double share = (static_cast<double>(random.Next() >> 8) + 0.5) / 0x1p24;
    const double size = -std::log(share);
    const bool below = !one_sided && (random.Next() >> 31) != 0;
    value = middle + static_cast<float>(below ? -size : size);
  }
  return values;
}

/// The paper's table for a Laplace distribution with b = 1 (arXiv:1810.05723, section 3.1 and its
/// code).
TEST(Observer, AciqClipsLaplaceValuesWhereThePaperDoes) {
  const std::pair<int, double> clips[] = {{2, 2.83}, {3, 3.89}, {4, 5.03}, {5, 6.20}, {6, 7.41}};
  for (const auto& [bits, wanted] : clips) {
    TensorQuantizationConfig config;
    ApplySettings({.bits = bits, .observer = "aciq"}, false, config);
    const Range range = Show(*MakeObserver(config), {LaplaceValues(200000, 0, false)});
    EXPECT_NEAR(range.max, wanted, 0.02 * wanted) << bits;
    EXPECT_NEAR(range.min, -wanted, 0.02 * wanted) << bits;
    const Range moved = Show(*MakeObserver(config), {LaplaceValues(200000, 1, false)});
    EXPECT_NEAR(moved.max, 1 + wanted, 0.02 * wanted) << bits;
    EXPECT_NEAR(moved.min, 1 - wanted, 0.02 * wanted) << bits;
    // Half of the distribution has steps of half the size, as with one bit more.
    const Range half = Show(*MakeObserver(config), {LaplaceValues(200000, 0, true)});
    EXPECT_EQ(half.min, 0);
    if (bits == 6) continue;
    EXPECT_NEAR(half.max, clips[bits - 1].second, 0.02 * half.max) << bits;
  }
}

TEST(Observer, AciqNeverLeavesTheRangeOfTheValues) {
  const Range range = Show(*MakeObserver(ConfigOf("aciq")), {{-1, -1, -1, 2}});
  EXPECT_GE(range.min, -1);
  EXPECT_LE(range.max, 2);
  const Range below = Show(*MakeObserver(ConfigOf("aciq")), {{-5, -1, -1, -1}});
  EXPECT_EQ(below.max, 0);
  EXPECT_LT(below.min, 0);
  const Range none = Show(*MakeObserver(ConfigOf("aciq")), {{0, 0}});
  EXPECT_EQ(none.min, 0);
  EXPECT_EQ(none.max, 0);
}

TEST(Observer, IsotoneKeepsTheOrderOfTheLargestTwo) {
  // Rows whose two largest values are close to each other, with one outlier below.
  Samples samples;
  Noise noise(3);
  for (int i = 0; i < 50; ++i) {
    const float top = 2 + noise.Uniform();
    samples.push_back({-100, 0, top, top - 0.1f});
  }
  TensorQuantizationConfig config = ConfigOf("isotone");
  auto observer = MakeObserver(config);
  const Range range = Show(*observer, samples);
  const auto lost = [&](const Range& trial) {
    const Affine affine = AffineFromRange(trial.min, trial.max, config);
    TensorQuantizationConfig grid = config;
    grid.scale = {affine.scale};
    grid.offset = {affine.offset};
    int count = 0;
    for (const auto& sample : samples) {
      count += !(FakeQuantize(sample[2], grid) > FakeQuantize(sample[3], grid));
    }
    return count;
  };
  EXPECT_GT(lost({-100, 3}), 25);
  EXPECT_LT(lost(range), 5);
}

/// Compared with hand computations from the sources named in affine.h.
TEST(Formula, ByHand) {
  const auto affine = [](const TensorSettings& settings, double min, double max) {
    TensorQuantizationConfig config;
    ApplySettings(settings, false, config);
    return AffineFromRange(min, max, config);
  };
  using F = ScaleFormula;
  // google: max|x| / 127; (max - min) / 255 with z = -round(min / s), and the range need not
  // include 0.
  EXPECT_EQ(affine({.symmetric = true, .formula = F::kGoogle}, -2.5, 1).scale, 2.5f / 127);
  const Affine google = affine({.formula = F::kGoogle}, 1, 3.55);
  EXPECT_EQ(google.scale, static_cast<float>(2.55 / 255));
  EXPECT_EQ(google.offset, -100);
  EXPECT_EQ(affine({.bits = 4, .formula = F::kGoogle}, -1, 2).scale, 0.2f);
  EXPECT_EQ(affine({.bits = 4, .formula = F::kGoogle}, -1, 2).offset, 5);
  // cambricon: 2^(floor(log2 max) - (b - 2)).
  EXPECT_EQ(affine({.symmetric = true, .formula = F::kCambricon}, -5, 3).scale, 0x1p-4f);
  EXPECT_EQ(affine({.symmetric = true, .formula = F::kCambricon}, -8, 3).scale, 0x1p-3f);
  EXPECT_EQ(affine({.bits = 4, .symmetric = true, .formula = F::kCambricon}, 0, 1).scale, 0.25f);
  // PPQ: 2 * max / (qmax - qmin) on [-128, 127]; asymmetric like ONNX.
  EXPECT_EQ(affine({.symmetric = true, .formula = F::kPpq}, -2.55, 1).scale,
            static_cast<float>(2 * 2.55 / 255));
  EXPECT_EQ(affine({.formula = F::kPpq}, -1, 1.55).offset, 100);
  // Powers of two are rounded up.
  EXPECT_EQ(affine({.symmetric = true, .power_of_2 = true}, -1.27, 1).scale, 0x1p-6f);
  // Degenerate ranges.
  EXPECT_EQ(affine({}, 0, 0).scale, 1);
  EXPECT_EQ(affine({.symmetric = true}, 0, 0).scale, 1);
  EXPECT_GT(affine({}, 0, 1e-45).scale, 0);
}

TEST(Formula, SmallFloats) {
  const SmallFloat e4m3{4, 3}, e5m2{5, 2};
  EXPECT_EQ(e4m3.largest(), 448);
  EXPECT_EQ(e5m2.largest(), 57344);
  EXPECT_EQ(RoundToSmallFloat(1e9, e4m3), 448);
  EXPECT_EQ(RoundToSmallFloat(17, e4m3), 16);  // steps of 2 above 16, ties to even
  EXPECT_EQ(RoundToSmallFloat(19, e4m3), 20);
  EXPECT_EQ(RoundToSmallFloat(-0.0009765625, e4m3), 0);  // half the smallest, 2^-9
  EXPECT_EQ(RoundToSmallFloat(0.0015, e4m3), 0x1p-9);
  EXPECT_EQ(RoundToSmallFloat(1.1, e5m2), 1.0);
  EXPECT_EQ(RoundToSmallFloat(1.2, e5m2), 1.25);
  // Rounding keeps every number of the format: 2 * 126 finite magnitudes of e4m3 and 0.
  int fixed = 0;
  for (int exponent = 0; exponent < 16; ++exponent) {
    for (int mantissa = 0; mantissa < 8; ++mantissa) {
      if (exponent == 15 && mantissa == 7) continue;
      const double value =
          exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 7 - 3);
      fixed += RoundToSmallFloat(value, e4m3) == value;
    }
  }
  EXPECT_EQ(fixed, 127);
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
