// Ranges become scales; weights, biases and constant operands become integers.
#include "quant/bake/baking.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/str_cat.h"
#include "quant/assign/assign.h"
#include "quant/bake/warn_of_scales.h"
#include "quant/calibrate/flat_ends.h"
#include "quant/grid/affine.h"
#include "quant/grid/simple_multipliers.h"
#include "quant/grid/simple_sums.h"
#include "quant/recover/weights/layer_weights.h"
#include "quant/weights/weights.h"

namespace requant {
namespace {

void CheckGivenOffsets(const TensorQuantizationConfig& config) {
  for (const int32_t offset : config.offset) {
    if (offset >= config.quant_min && offset <= config.quant_max &&
        (!config.symmetric() || offset == 0)) {
      continue;
    }
    const std::string why =
        config.symmetric()
            ? std::string("' is not 0, but its grid is symmetric")
            : StrCat("' is none of its integers ", config.quant_min, "..", config.quant_max);
    Fail(ErrorCode::kInvalidQuantization,
         StrCat("the given zero point ", offset, " of '", config.value, why),
         {.node = config.node,
          .value = config.value,
          .hint = "choose the same symmetric / signed settings as where the scale comes from"});
  }
}

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

void Baking::Gain::Add(const LayerNoise& noise) {
  if (!(noise.signal > 0)) return;
  before += noise.Decibels(noise.before);
  after += noise.Decibels(noise.after);
  ++layers;
}

Baking::Baking(const Graph& graph, QuantizationRecord& record, const QuantizeOptions& options,
               const RecoveryMethods& methods, Calibrated& seen)
    : graph_(graph), record_(record), options_(options), methods_(methods), seen_(seen) {
  MakeChooser();
}

/// For slots whose observer proposes several ranges.
void Baking::MakeChooser() {
  std::map<int, std::vector<RangeProposal>> proposals;
  int64_t wanted = 0;
  for (const auto& [index, watch] : seen_.slots) {
    const TensorQuantizationConfig& config = Config(index);
    if (config.per_channel() || Given(index) || watch.derived) continue;
    const Observer& observer = *watch.channels[0];
    const std::vector<RangeProposal> several = observer.Proposals();
    if (several.empty()) continue;
    wanted = std::max(wanted, observer.wanted_samples());
    for (const RangeProposal& one : several) {
      proposals[index].push_back(
          {one.observer, WithoutFlatEnds(graph_, record_, index, one.range)});
    }
    chosen_.insert(index);
  }
  if (proposals.empty()) return;
  const size_t count = std::min(seen_.samples.size(), static_cast<size_t>(wanted));
  if (count == 0) {
    record_.warnings.push_back(
        "observer 'auto' had no samples to try: least squared error is used");
  }
  chooser_ = MakeRangeChooser(graph_, record_, std::move(proposals),
                              std::span(seen_.samples).subspan(0, count));
}

FinishProgress Baking::Step() {
  if (chooser_) {
    FinishProgress progress = chooser_->Step();
    if (progress.finished) chooser_.reset();
    progress.finished = false;
    return progress;
  }
  const auto count = static_cast<int64_t>(graph_.nodes().size());
  if (next_node_ == 0) Activate();
  while (next_node_ < graph_.nodes().size()) {
    const Node& node = *graph_.nodes()[next_node_++];
    const OperatorQuantization& op = record_.operators.at(node.name);
    if (!op.quantized) continue;
    const bool layer = WeightSlot(node, op.rule) >= 0;
    try {
      if (layer) {
        QuantizeLayer(node, op);
      } else {
        QuantizeOperands(node, op);
      }
    } catch (Error& error) {
      error.AddNode(node.name);
      throw;
    }
    if (layer) break;
  }
  finished_ = next_node_ == graph_.nodes().size();
  if (finished_) RecordGains();
  return {"round", static_cast<int64_t>(next_node_), count, finished_};
}

void Baking::RecordGains() {
  for (const RecoveryStage stage : {RecoveryStage::kRound, RecoveryStage::kCorrect}) {
    for (const RecoveryRow* row : methods_.At(stage)) {
      const Gain& gain = gains_[row];
      if (gain.layers == 0) {
        WarnOfIdle(row->name, options_, record_);
        continue;
      }
      record_.recovery.push_back(
          {row->name, gain.before / gain.layers, gain.after / gain.layers,
           StrCat("errors of weights in the outputs of ", gain.layers, " layers")});
    }
  }
}

void Baking::SetScale(TensorQuantizationConfig& config, const std::vector<Range>& ranges) {
  config.scale.clear();
  config.offset.clear();
  for (const Range& range : ranges) {
    const Affine affine = AffineOfActivation(range.min, range.max, config);
    if (affine.offset != AffineFromRange(range.min, range.max, config).offset) {
      record_.warnings.push_back(StrCat("the range of value '", config.value,
                                        "' does not hold 0, which integer operators ",
                                        "need: it was widened"));
    }
    config.scale.push_back(affine.scale);
    config.offset.push_back(affine.offset);
    config.threshold = affine.threshold;
  }
}

/// What was given instead of calibrated.
void Baking::SetGiven(TensorQuantizationConfig& config) const {
  const FixedScale fixed = config.observer == kGiven ? FixedScale{config.scale, config.offset}
                                                     : options_.scales.at(config.value);
  if (!config.per_channel() && fixed.scale.size() != 1) {
    Fail(ErrorCode::kInvalidQuantization,
         StrCat(fixed.scale.size(), " scales were given for '", config.value, "', which has one"),
         {.node = config.node, .value = config.value, .hint = "give one scale"});
  }
  config.scale = fixed.scale;
  config.offset = fixed.offset;
  if (config.offset.empty()) config.offset.assign(config.scale.size(), 0);
  config.observer = kGiven;
  if (config.bipolar() && config.offset[0] == 1) {
    config.threshold = std::exchange(config.offset[0], 0);
  }
  CheckGivenOffsets(config);
}

/// Ranges become scales.
void Baking::Activate() {
  for (const auto& [index, watch] : seen_.slots) {
    TensorQuantizationConfig& config = Config(index);
    if (Given(index)) {
      SetGiven(config);
      Transit(config.state, QuantizationState::kActivated, config.node);
      continue;
    }
    std::vector<Range> ranges;
    if (chosen_.contains(index)) {
      ranges.push_back({config.range_min, config.range_max});
    } else if (watch.derived) {
      ranges.push_back(*watch.derived);
    } else {
      for (const auto& observer : watch.channels) {
        ranges.push_back(WithoutFlatEnds(graph_, record_, index, observer->Get()));
      }
    }
    bool useful = false;
    config.range_min = config.range_max = 0;
    for (const Range& range : ranges) {
      config.range_min = std::min(config.range_min, range.min);
      config.range_max = std::max(config.range_max, range.max);
      useful = useful || range.max > 0 || range.min < 0;
    }
    if (!useful) {
      record_.warnings.push_back(
          StrCat("value '", config.value, "' was 0 in all calibration samples: its scale is 1"));
    } else if (config.range_max - config.range_min < 1e-16) {
      record_.warnings.push_back(StrCat("value '", config.value, "' only took values below 1e-16: ",
                                        "its scale is the least that integer operators can use"));
    }
    SetScale(config, ranges);
    if (*std::max_element(config.scale.begin(), config.scale.end()) >= 1e18f) {
      record_.warnings.push_back(StrCat(
          "value '", config.value, "' took values up to ",
          std::max(-config.range_min, config.range_max),
          ", more than the greatest scale of integer operators holds: ", "they are cut off"));
    }
    Transit(config.state, QuantizationState::kActivated, config.node);
  }
  SimplifySums(graph_, record_, [this](int index) { return Given(index); });
  WarnOfScales(seen_.slots, options_, record_);
}

void Baking::QuantizeLayer(const Node& node, const OperatorQuantization& op) {
  const TensorQuantizationConfig& input = record_.Root(op.inputs[0]);
  const double input_scale = static_cast<double>(input.scale[0]);
  // Sums with 16-bit codes on one side are multiplied in float64, so that no scale is too small.
  const bool wide = input.wide() || (!op.float_output && record_.Root(op.outputs[0]).wide());
  const double output_scale =
      op.float_output || wide ? 0 : static_cast<double>(record_.Root(op.outputs[0]).scale[0]);
  TensorQuantizationConfig& config =
      Config(op.inputs[static_cast<size_t>(WeightSlot(node, op.rule))]);
  const Tensor& weights = node.inputs[1]->constant;
  const WeightMatrix view = ViewWeights(node, op.rule);
  const int bias_slot = BiasSlot(node, op.rule);
  std::vector<double> bias;
  if (bias_slot >= 0) bias = ReadBias(node.constant(static_cast<size_t>(bias_slot)), view.rows);
  const auto found = seen_.moments.find(node.name);
  const InputMoments* inputs =
      found != seen_.moments.end() && found->second->count() > 0 ? found->second.get() : nullptr;
  double unit = 0;  // of scales with simple multipliers
  if (options_.Gives(config)) {
    const FixedScale fixed = config.observer == kGiven ? FixedScale{config.scale, config.offset}
                                                       : options_.scales.at(config.value);
    const size_t channels = config.per_channel() ? static_cast<size_t>(view.scales) : 1;
    if (fixed.scale.size() != channels) {
      Fail(ErrorCode::kInvalidQuantization,
           StrCat(fixed.scale.size(), " scales were given for '", config.value, "', ", channels,
                  " are needed"),
           {.node = node.name, .value = config.value});
    }
    config.scale = fixed.scale;
    config.offset = fixed.offset;
    config.offset.resize(channels, 0);
    config.observer = kGiven;
    CheckGivenOffsets(config);
  } else {
    // Layers that are simulated in float have no accumulators that the scales must suit.
    ScaleWeights(weights, view, input_scale, op.simulated ? 0 : output_scale,
                 op.simulated ? std::vector<double>() : bias, config, inputs);
    if (!op.float_output) {
      unit = SimplifyMultipliers(input_scale, record_.Root(op.outputs[0]), config);
    }
  }
  Transit(config.state, QuantizationState::kActivated, node.name);

  // Error feedback needs evenly spaced codes.
  std::vector<const RecoveryRow*> rounding;
  std::vector<const RecoveryRow*> correcting;
  if (inputs && !config.exotic_weight()) rounding = methods_.At(RecoveryStage::kRound);
  if (inputs && bias_slot >= 0) correcting = methods_.At(RecoveryStage::kCorrect);
  if (rounding.empty()) config.baked = QuantizeParameter(weights, config);
  for (const RecoveryRow* row : rounding) {
    LayerWeights work{weights, *inputs, config, bias, unit, !correcting.empty()};
    gains_[row].Add(Applied(*row, work));
  }
  for (const RecoveryRow* row : correcting) {
    LayerWeights work{weights, *inputs, config, bias, unit, true};
    gains_[row].Add(Applied(*row, work));
  }
  if (bias_slot >= 0 && input.bipolar() && input.threshold != 0) {
    AddMeanOfSigns(view, config, input_scale, bias);
  }
  biases_[node.name] = std::move(bias);
  if (found != seen_.moments.end()) found->second.reset();  // the matrices are large
}

/// Constant operands of Add and Mul: their own range, known exactly.
void Baking::QuantizeOperands(const Node& node, const OperatorQuantization& op) {
  for (size_t slot = 0; slot < op.inputs.size(); ++slot) {
    const Tensor* constant = node.constant(slot);
    if (op.inputs[slot] < 0 || constant == nullptr) continue;
    TensorQuantizationConfig& config = Config(op.inputs[slot]);
    if (config.state != QuantizationState::kInitial) continue;
    config.policy = (config.policy & ~kPerChannel) | kPerTensor;
    for (const float value : constant->values<float>()) {
      if (!std::isfinite(value)) {
        Fail(ErrorCode::kInvalidModel, StrCat("an operand of '", node.name, "' is not finite"),
             {.node = node.name, .value = node.inputs[slot]->name});
      }
      config.range_min = std::min(config.range_min, static_cast<double>(value));
      config.range_max = std::max(config.range_max, static_cast<double>(value));
    }
    if (config.observer == kGiven) {
      SetGiven(config);
      config.baked = QuantizeParameter(*constant, config);
      Transit(config.state, QuantizationState::kActivated, node.name);
      Transit(config.state, QuantizationState::kBaked, node.name);
      continue;
    }
    if (config.bipolar()) {  // least squares
      double sum = 0;
      for (const float value : constant->values<float>()) sum += std::fabs(value);
      config.range_max = sum / static_cast<double>(std::max<int64_t>(1, constant->count()));
      config.range_min = -config.range_max;
    }
    const Affine affine = AffineFromRange(config.range_min, config.range_max, config);
    config.scale = {affine.scale};
    config.offset = {affine.offset};
    config.baked = QuantizeParameter(*constant, config);
    Transit(config.state, QuantizationState::kActivated, node.name);
    Transit(config.state, QuantizationState::kBaked, node.name);
  }
}

void Baking::Finish() {
  for (const auto& node : graph_.nodes()) {
    const OperatorQuantization& op = record_.operators.at(node->name);
    if (!op.quantized || WeightSlot(*node, op.rule) < 0) continue;
    TensorQuantizationConfig& weights =
        Config(op.inputs[static_cast<size_t>(WeightSlot(*node, op.rule))]);
    Transit(weights.state, QuantizationState::kBaked, node->name);
    const int bias_slot = BiasSlot(*node, op.rule);
    if (bias_slot < 0) continue;
    TensorQuantizationConfig& bias = Config(op.inputs[static_cast<size_t>(bias_slot)]);
    // With several scales for its input, or a finer one than integers have, a bias has none of its
    // own: it is added in float.
    const TensorQuantizationConfig& input = record_.Root(op.inputs[0]);
    BakeBias(biases_.at(node->name), input.exotic_activation() ? std::vector<float>() : input.scale,
             weights, bias);
  }
  BakePassive(graph_, record_);
}

}  // namespace requant
