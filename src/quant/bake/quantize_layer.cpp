// Integers of one layer's weights.
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/str_cat.h"
#include "quant/assign/assign.h"
#include "quant/bake/baking.h"
#include "quant/grid/affine.h"
#include "quant/grid/simple_multipliers.h"
#include "quant/recover/weights/layer_weights.h"
#include "quant/weights/weights.h"

namespace requant {
namespace {

LayerNoise Applied(const RecoveryRow& row, LayerWeights& layer) {
  LayerNoise noise;
  row.layer(layer, noise);
  return noise;
}

/// Signs of values that are never negative lie one step too low: -s and s for 0 and 2 s. The bias
/// makes up for that, but for the zeros around an image.
void AddMeanOfSigns(const WeightMatrix& view, const TensorQuantizationConfig& weights, double step,
                    std::vector<double>& bias) {
  bias.resize(static_cast<size_t>(view.rows));
  for (int64_t row = 0; row < view.rows; ++row) {
    int64_t sum = 0;
    for (int64_t column = 0; column < view.k; ++column) {
      sum += weights.baked.AsInt64(view.At(row, column));
    }
    bias[static_cast<size_t>(row)] += step * weights.ScaleOfRow(row) * static_cast<double>(sum);
  }
}

}  // namespace

struct Baking::Layer {
  const Node& node;
  const OperatorQuantization& op;
  const Tensor& weights;
  const WeightMatrix view;
  const InputMoments* inputs;  // nullptr: none are known
  double input_scale;
  double output_scale;       // 0: accumulators become floats
  std::vector<double> bias;  // one number per row, or none
  std::vector<const RecoveryRow*> rounding, correcting;
};

/// Weights that became integers.
struct Baking::Rounded {
  TensorQuantizationConfig config;
  std::vector<double> bias;
  std::vector<std::pair<const RecoveryRow*, LayerNoise>> gains;
};

void Baking::SetGivenWeights(const Layer& layer, TensorQuantizationConfig& config) const {
  const FixedScale fixed = GivenScale(config);
  const size_t channels = config.per_channel() ? static_cast<size_t>(layer.view.scales) : 1;
  if (fixed.scale.size() != channels) {
    Fail(ErrorCode::kInvalidQuantization,
         StrCat(fixed.scale.size(), " scales were given for '", config.value, "', ", channels,
                " are needed"),
         {.node = layer.node.name, .value = config.value});
  }
  config.scale = fixed.scale;
  config.offset = fixed.offset;
  config.offset.resize(channels, 0);
  config.observer = kGiven;
  CheckGivenOffsets(config);
}

/// The errors of the weights in the layer's outputs: of the last method that rounded, or of
/// rounding to nearest.
LayerNoise Baking::WeightNoise(const Layer& layer, const Rounded& rounded) {
  LayerNoise noise;
  for (const auto& [row, gain] : rounded.gains) {
    if (row->stage == RecoveryStage::kRound) noise = gain;
  }
  if (!layer.rounding.empty()) return noise;
  RoundWeights(layer.weights, *layer.inputs, rounded.config, !layer.correcting.empty(), &noise);
  noise.after = noise.before;
  return noise;
}

Baking::Rounded Baking::Round(const Layer& layer, TensorQuantizationConfig config) const {
  Rounded rounded{std::move(config), layer.bias, {}};
  double unit = 0;  // of scales with simple multipliers
  if (options_.Gives(rounded.config)) {
    SetGivenWeights(layer, rounded.config);
  } else {
    // Layers that are simulated in float have no accumulators that the scales must suit.
    const bool simulated = layer.op.simulated;
    ScaleWeights(layer.weights, layer.view, layer.input_scale, simulated ? 0 : layer.output_scale,
                 simulated ? std::vector<double>() : layer.bias, rounded.config, layer.inputs);
    if (!layer.op.float_output) {
      unit =
          SimplifyMultipliers(layer.input_scale, record_.Root(layer.op.outputs[0]), rounded.config);
    }
  }
  if (layer.rounding.empty()) {
    rounded.config.baked = QuantizeParameter(layer.weights, rounded.config);
  }
  const bool corrected = !layer.correcting.empty();
  for (const auto* rows : {&layer.rounding, &layer.correcting}) {
    for (const RecoveryRow* row : *rows) {
      LayerWeights work{layer.weights, *layer.inputs, rounded.config,
                        rounded.bias,  unit,          corrected};
      rounded.gains.emplace_back(row, Applied(*row, work));
    }
  }
  return rounded;
}

void Baking::QuantizeLayer(const Node& node, const OperatorQuantization& op) {
  const TensorQuantizationConfig& input = record_.Root(op.inputs[0]);
  // Sums with 16-bit codes on one side are multiplied in float64, so that no scale is too small.
  const bool wide = input.wide() || (!op.float_output && record_.Root(op.outputs[0]).wide());
  const WeightMatrix view = ViewWeights(node, op.rule);
  const auto found = seen_.moments.find(node.name);
  const bool seen = found != seen_.moments.end() && found->second->count() > 0;
  Layer layer{
      .node = node,
      .op = op,
      .weights = node.inputs[1]->constant,
      .view = view,
      .inputs = seen ? found->second.get() : nullptr,
      .input_scale = static_cast<double>(input.scale[0]),
      .output_scale =
          op.float_output || wide ? 0 : static_cast<double>(record_.Root(op.outputs[0]).scale[0]),
      .bias = {},
      .rounding = {},
      .correcting = {},
  };
  TensorQuantizationConfig& config =
      Config(op.inputs[static_cast<size_t>(WeightSlot(node, op.rule))]);
  const int bias_slot = BiasSlot(node, op.rule);
  if (bias_slot >= 0) {
    layer.bias = ReadBias(node.constant(static_cast<size_t>(bias_slot)), view.rows);
  }
  // Error feedback needs evenly spaced codes.
  if (seen && !config.exotic_weight()) layer.rounding = methods_.At(RecoveryStage::kRound);
  if (seen && bias_slot >= 0) layer.correcting = methods_.At(RecoveryStage::kCorrect);

  Rounded rounded = Round(layer, config);
  const double most_loss = options_.Of(node.name, node.op_type).narrow_weights;
  if (most_loss > 0 && seen && !options_.Gives(config) && MayBeNarrow(view, input, config)) {
    Rounded narrow = Round(layer, Narrow(config));
    const double shared = InputNoise(layer.weights, view, input);
    const double wide_noise = shared + WeightNoise(layer, rounded).after;
    const double narrow_noise = shared + WeightNoise(layer, narrow).after;
    Transit(narrow.config.state, QuantizationState::kActivated, node.name);
    narrow_.push_back({.node = node.name,
                       .config = op.inputs[static_cast<size_t>(WeightSlot(node, op.rule))],
                       .loss = 10 * std::log10(narrow_noise / wide_noise),
                       .most_loss = most_loss,
                       .weights = std::move(narrow.config),
                       .bias = std::move(narrow.bias)});
  }
  config = std::move(rounded.config);
  Transit(config.state, QuantizationState::kActivated, node.name);
  for (const auto& [row, noise] : rounded.gains) gains_[row].Add(noise);
  if (bias_slot >= 0 && input.bipolar() && input.threshold != 0) {
    AddMeanOfSigns(view, config, layer.input_scale, rounded.bias);
  }
  biases_[node.name] = std::move(rounded.bias);
  if (found != seen_.moments.end()) found->second.reset();  // the matrices are large
}

}  // namespace requant
