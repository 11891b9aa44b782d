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
#include "quant/grid/simple_sums.h"
#include "quant/recover/weights/layer_weights.h"
#include "quant/weights/weights.h"

namespace requant {

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
  if (options_.AsksForNarrow() && (narrow_.empty() || seen_.samples.empty())) {
    record_.warnings.push_back(
        StrCat("the option narrowWeights has no effect: ",
               narrow_.empty() ? "no layer has symmetric weights of 8 bits, an input of 8 bits and "
                                 "scales that nobody gave"
                               : "there are no samples to measure on"));
    narrow_.clear();
  }
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

void Baking::CheckGivenOffsets(const TensorQuantizationConfig& config) {
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

/// What was given instead of calibrated.
void Baking::SetGiven(TensorQuantizationConfig& config) const {
  const FixedScale fixed = GivenScale(config);
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
