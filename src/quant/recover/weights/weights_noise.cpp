#include <algorithm>
#include <cmath>

#include "quant/assign/assign.h"
#include "quant/grid/affine.h"
#include "quant/recover/weights/layer_weights.h"
#include "quant/weights/weights.h"

namespace requant {

double LayerNoise::Decibels(double noise) const {
  // No noise at all counts as 150 dB.
  return 10 * std::log10(signal / std::max(noise, signal * 1e-15));
}

double WeightsSnr(const Graph& graph, const QuantizeOptions& options) {
  QuantizationRecord record = AssignConfigs(graph, options);
  double sum = 0;
  int64_t rows = 0;
  for (const auto& node : graph.nodes()) {
    const OperatorQuantization& op = record.operators.at(node->name);
    const int slot = WeightSlot(*node, op.rule);
    if (!op.quantized || slot < 0) continue;
    const int index = op.inputs[static_cast<size_t>(slot)];
    TensorQuantizationConfig& config = record.configs[static_cast<size_t>(index)];
    const Tensor& weights = node->inputs[1]->constant;
    const WeightMatrix view = ViewWeights(*node, op.rule);
    ScaleWeights(weights, view, 1, 0, {}, config);
    const Tensor got = DequantizeParameter(QuantizeParameter(weights, config), config);
    for (int64_t row = 0; row < view.rows; ++row) {
      LayerNoise noise;
      for (int64_t column = 0; column < view.k; ++column) {
        const int64_t at = view.At(row, column);
        const double w = weights.AsDouble(at);
        const double error = got.AsDouble(at) - w;
        noise.signal += w * w;
        noise.after += error * error;
      }
      if (!(noise.signal > 0)) continue;
      sum += noise.Decibels(noise.after);
      ++rows;
    }
  }
  return rows > 0 ? sum / static_cast<double>(rows) : 0;
}

}  // namespace requant
