#include "quant/recover/equalize/scaling_trial.h"

#include <algorithm>
#include <cmath>

#include "quant/assign/assign.h"
#include "quant/grid/affine.h"
#include "quant/weights/weights.h"

namespace requant {
namespace {

constexpr double kRoom = 1.1;         // margin between the largest value seen and a clip
constexpr double kLeastShare = 0.25;  // share of the median channel's magnitude
constexpr double kMostGain = 1024;

}  // namespace

void ScalingTrial::FindFactors() {
  if (!factors.empty()) return;
  const auto channels = static_cast<size_t>(scaling.channels);
  std::vector<double> magnitude(channels);
  std::vector<double> weight(channels);
  std::vector<double> sorted;
  for (size_t c = 0; c < channels; ++c) {
    magnitude[c] = static_cast<double>(std::max(-low[c], high[c]));
    if (magnitude[c] > 0) sorted.push_back(magnitude[c]);
  }
  std::sort(sorted.begin(), sorted.end());
  const double largest = sorted.empty() ? 0 : sorted.back();
  const double least = sorted.empty() ? 0 : kLeastShare * sorted[sorted.size() / 2];
  for (const Node* node : scaling.readers) {
    const float* data = node->constant(1)->data<float>();
    ForWeights(*node, scaling.channels, [&](int64_t at, int64_t channel) {
      double& most = weight[static_cast<size_t>(channel)];
      most = std::max(most, std::fabs(static_cast<double>(data[at])));
    });
  }
  const double heaviest = *std::max_element(weight.begin(), weight.end());
  for (const double exponent : kExponents) {
    std::vector<float> made(channels, 1);
    for (size_t c = 0; c < channels; ++c) {
      if (exponent == 0 || !(magnitude[c] > 0) || !(weight[c] > 0)) continue;
      const double reach = std::max(magnitude[c], least);
      double factor = std::pow(largest / reach, exponent);
      if (scaling.bound == 0) {
        factor *= std::pow(weight[c] / heaviest, 1 - exponent);
      } else {
        factor = std::clamp(factor, 1.0, std::max(1.0, scaling.bound / (kRoom * magnitude[c])));
      }
      made[c] = static_cast<float>(std::clamp(factor, 1 / kMostGain, kMostGain));
    }
    factors.push_back(std::move(made));
  }
}

/// Rounds the weights to the grid they will have: the finest that holds them, by row or for all.
void ScalingTrial::PrepareReader(const QuantizationRecord& record, const Node& node) {
  if (readers.contains(&node)) return;
  const OperatorQuantization& op = record.operators.at(node.name);
  TensorQuantizationConfig config =
      record
          .configs[static_cast<size_t>(op.inputs[static_cast<size_t>(WeightSlot(node, op.rule))])];
  const WeightMatrix view = ViewWeights(node, op.rule);
  const Tensor& weights = *node.constant(1);
  Reader& reader = readers[&node];
  for (const std::vector<float>& factor : factors) {
    Tensor scaled = weights.Clone();
    float* data = scaled.data<float>();
    ForWeights(node, scaling.channels, [&](int64_t at, int64_t channel) {
      data[at] /= factor[static_cast<size_t>(channel)];
    });
    config.scale.clear();
    TensorQuantizationConfig plain = config;
    plain.observer = "minmax";
    ScaleWeights(scaled, view, 1, 0, {}, plain);
    const Tensor rounded = DequantizeParameter(QuantizeParameter(scaled, plain), plain);
    reader.weights.push_back(rounded.ToFloats());
  }
}

}  // namespace requant
