#include "quant/weights/weights.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "numeric/affine.h"
#include "quant/grid/affine.h"
#include "quant/observers/moments.h"
#include "quant/observers/observer.h"

namespace requant {
namespace {

constexpr double kDeadRow = 1e-8;
// 2^-13.5 and 2^-20.5.
constexpr double kLeastDeadMultiplier = 8.6316745750310938e-05;
constexpr double kLeastMultiplier = 6.7434957617430420e-07;
constexpr double kLargestBias = 1073741824.0;  // 2^30
constexpr double kPreciseBias = 16777216.0;    // 2^24
constexpr double kLeastOfBias = 1e-18;         // scales are multiplied, and must stay far from 0

/// The least scale of a row that the integer arithmetic permits (see weights.h).
double LeastScale(bool dead, double largest_bias, double input_scale, double output_scale) {
  double least = (dead ? kLeastDeadMultiplier : kLeastMultiplier) * output_scale / input_scale;
  // Accumulators that become floats are not shifted. A row of zeros permits any scale, but its
  // result is the bias, which deserves the precision of a float.
  if (!(output_scale > 0)) {
    const double of_bias = largest_bias / (kPreciseBias * input_scale);
    least = !dead ? 0 : largest_bias > 0 ? std::max(of_bias, kLeastOfBias) : 1;
  }
  return std::max(least, largest_bias / (kLargestBias * input_scale));
}

/// The range that an affine grid covers, by the config's observer; all weights without one.
Range RangeOfWeights(const ChannelWeights& weights, const ObserverRow* observer,
                     const TensorQuantizationConfig& config) {
  if (observer && observer->range_of_weights) return observer->range_of_weights(weights, config);
  if (observer && observer->of_weights) {
    const std::unique_ptr<Observer> made = observer->make(config);
    for (int pass = 0; pass < made->passes(); ++pass) {
      made->Observe(pass, weights.values);
      made->EndSample(pass);
    }
    return made->Get();
  }
  const auto [low, high] = std::minmax_element(weights.values.begin(), weights.values.end());
  return {static_cast<double>(*low), static_cast<double>(*high)};
}

}  // namespace

std::vector<double> ReadBias(const Tensor* bias, int64_t rows) {
  if (bias == nullptr) return {};
  std::vector<double> out = bias->ToDoubles();
  if (out.size() == 1) out.resize(static_cast<size_t>(rows), out[0]);
  return out;
}

void ScaleWeights(const Tensor& weights, const WeightMatrix& view, double input_scale,
                  double output_scale, const std::vector<double>& bias,
                  TensorQuantizationConfig& config, const InputMoments* inputs) {
  const float* data = weights.data<float>();
  float layer_largest = 0;
  for (int64_t i = 0; i < weights.count(); ++i) {
    layer_largest = std::max(layer_largest, std::fabs(data[i]));
  }
  const int64_t channels = config.per_channel() ? view.scales : 1;
  config.scale.clear();
  config.offset.clear();
  std::vector<float> values, magnitudes;
  std::vector<double> importance;
  const ObserverRow* observer = FindObserver(config.observer);
  const bool weighed = observer && observer->weighs_inputs && inputs && inputs->count() > 0;
  for (int64_t channel = 0; channel < channels; ++channel) {
    values.clear();
    importance.clear();
    double largest_bias = 0;
    for (int64_t row = channel; row < view.rows; row += channels) {
      if (weighed) {
        const std::vector<double> squares = inputs->Diagonal(row / view.rows_per_group(), false);
        importance.insert(importance.end(), squares.begin(), squares.end());
      }
      for (int64_t column = 0; column < view.k; ++column) {
        values.push_back(data[view.At(row, column)]);
      }
      if (!bias.empty()) {
        largest_bias = std::max(largest_bias, std::fabs(bias[static_cast<size_t>(row)]));
      }
    }
    magnitudes.resize(values.size());
    std::transform(values.begin(), values.end(), magnitudes.begin(),
                   [](float value) { return std::fabs(value); });
    double magnitude = 0;
    if (!magnitudes.empty()) {
      magnitude = static_cast<double>(*std::max_element(magnitudes.begin(), magnitudes.end()));
    }
    Affine grid{0, 0};
    double lowest = 0;
    if (magnitude > 0 && !config.symmetric()) {
      const Range range = RangeOfWeights({values, importance}, observer, config);
      grid = AffineOfActivation(range.min, range.max, config);
      lowest = range.min;
    } else {
      if (magnitude > 0 && observer && observer->of_weights) {
        magnitude = observer->of_weights({magnitudes, importance}, config);
      }
      grid.scale = static_cast<float>(SymmetricScale(magnitude, config));
    }
    const bool dead = magnitude <= kDeadRow * static_cast<double>(layer_largest);
    const double least = LeastScale(dead, largest_bias, input_scale, output_scale);
    const double wanted = static_cast<double>(grid.scale);
    auto rounded = static_cast<float>(dead ? least : std::max(wanted, least));
    if (config.policy & kPowerOf2) rounded = PowerOfTwoScale(rounded);
    config.scale.push_back(rounded);
    config.offset.push_back(rounded == grid.scale
                                ? grid.offset
                                : OffsetFor(lowest, static_cast<double>(rounded), config));
  }
}

void RaiseScales(const WeightMatrix& view, double input_scale, double output_scale,
                 const std::vector<double>& bias, TensorQuantizationConfig& config) {
  for (size_t channel = 0; channel < config.scale.size(); ++channel) {
    double largest_bias = 0;
    for (auto row = channel; row < static_cast<size_t>(view.rows); row += config.scale.size()) {
      if (row < bias.size()) largest_bias = std::max(largest_bias, std::fabs(bias[row]));
    }
    const auto least =
        static_cast<float>(LeastScale(false, largest_bias, input_scale, output_scale));
    if (config.scale[channel] >= least) continue;
    config.scale[channel] = (config.policy & kPowerOf2) ? PowerOfTwoScale(least) : least;
  }
}

double MostBias(const TensorQuantizationConfig& weights, const TensorQuantizationConfig& input,
                size_t rows) {
  const auto reach = [](const TensorQuantizationConfig& config) {
    return static_cast<double>(config.quant_max - config.quant_min);
  };
  const double products = static_cast<double>(weights.baked.count()) / static_cast<double>(rows) *
                          reach(weights) * reach(input);
  return std::max(kLargestBias, 2147483647.0 - 2 * products);
}

}  // namespace requant
