// Ranges become scales; weights, biases and constant operands become integers.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/str_cat.h"
#include "quant/assign/assign.h"
#include "quant/calibrate/flat_ends.h"
#include "quant/grid/affine.h"
#include "quant/grid/simple_multipliers.h"
#include "quant/grid/simple_sums.h"
#include "quant/observers/auto.h"
#include "quant/quantizer_impl.h"
#include "quant/recover/recover.h"
#include "quant/weights/weights.h"

namespace requant {

void Quantizer::Impl::SetScale(TensorQuantizationConfig& config, const std::vector<Range>& ranges) {
  config.scale.clear();
  config.offset.clear();
  for (const Range& range : ranges) {
    const Affine affine = AffineOfActivation(range.min, range.max, config);
    if (affine.offset != AffineFromRange(range.min, range.max, config).offset) {
      record.warnings.push_back(StrCat("the range of value '", config.value,
                                       "' does not hold 0, which integer operators ",
                                       "need: it was widened"));
    }
    config.scale.push_back(affine.scale);
    config.offset.push_back(affine.offset);
  }
}

/// What was given instead of calibrated.
void Quantizer::Impl::SetGiven(TensorQuantizationConfig& config) const {
  const FixedScale& fixed = options.scales.at(config.value);
  if (!config.per_channel() && fixed.scale.size() != 1) {
    Fail(ErrorCode::kInvalidQuantization,
         StrCat(fixed.scale.size(), " scales were given for '", config.value, "', which has one"),
         {.node = config.node, .value = config.value, .hint = "give one scale"});
  }
  config.scale = fixed.scale;
  config.offset = fixed.offset;
  if (config.offset.empty()) config.offset.assign(config.scale.size(), 0);
  config.observer = "given";
  for (const int32_t offset : config.offset) {
    if (offset >= config.quant_min && offset <= config.quant_max &&
        (!config.symmetric() || offset == 0)) {
      continue;
    }
    Fail(ErrorCode::kInvalidQuantization,
         StrCat("the given zero point ", offset, " of '", config.value,
                "' is none of its integers ", config.quant_min, "..", config.quant_max),
         {.node = config.node,
          .value = config.value,
          .hint = "choose the same symmetric / signed settings as where the scale comes from"});
  }
}

/// Slots whose observer proposes several ranges; nullptr when there are none.
std::unique_ptr<RangeChooser> Quantizer::Impl::MakeChooser() {
  std::map<int, std::vector<RangeProposal>> proposals;
  for (const auto& [index, watch] : observers) {
    const TensorQuantizationConfig& config = Config(index);
    if (config.observer != "auto" || config.per_channel() || Fixed(index) || watch.derived)
      continue;
    for (const auto& proposal : static_cast<const AutoObserver&>(*watch.channels[0]).Proposals()) {
      proposals[index].push_back(
          {proposal.observer, WithoutFlatEnds(graph, record, index, proposal.range)});
    }
    chosen.insert(index);
  }
  if (proposals.empty()) return nullptr;
  const size_t count = std::min(kept.size(), static_cast<size_t>(kSamplesOfAuto));
  if (count == 0) {
    record.warnings.push_back("observer 'auto' had no samples to try: least squared error is used");
  }
  return MakeRangeChooser(graph, record, std::move(proposals), std::span(kept).subspan(0, count));
}

/// Where half of the samples stay within so few steps that hardly anything is left of them: one
/// warning for all values, since outliers spread from each to those behind it. Returns their
/// configs.
std::set<int> Quantizer::Impl::WarnOfUselessScales() {
  std::set<int> useless;
  std::string text;
  int more = 0;
  for (const auto& [index, watch] : observers) {
    const TensorQuantizationConfig& config = Config(index);
    if (Fixed(index) || config.exponential() || config.bits < 5 || watch.magnitudes.empty())
      continue;
    int64_t all = 0;
    for (const auto& [exponent, found] : watch.magnitudes) all += found.samples;
    int64_t below = 0;
    auto middle = watch.magnitudes.begin();
    while (2 * (below += middle->second.samples) < all) ++middle;
    const double largest = std::ldexp(1.0, middle->first);
    const float step = *std::min_element(config.scale.begin(), config.scale.end());
    if (largest >= 4 * static_cast<double>(step)) continue;
    useless.insert(index);
    if (!text.empty()) {
      ++more;
      continue;
    }
    text = StrCat("value '", config.value, "' stays below ", largest,
                  " in half of the calibration samples, but outliers, as in sample ",
                  watch.magnitudes.rbegin()->second.first, ", made its range ", config.range_min,
                  "..", config.range_max, ", whose steps are ", step);
  }
  if (text.empty()) return useless;
  if (more > 0) text += StrCat(" (", more, " values behind it, too)");
  record.warnings.push_back(
      text + ": remove those samples, or, if they are typical, take observer 'percentile'");
  return useless;
}

/// Values that are hardly more than the noise of their own grid in most samples, without those that
/// are `known`. One warning for all.
void Quantizer::Impl::WarnOfLostCodes(const std::set<int>& known) {
  constexpr double kLeastDecibels = 10;
  std::string text;
  int more = 0;
  for (const auto& [index, watch] : observers) {
    const TensorQuantizationConfig& config = Config(index);
    if (Fixed(index) || config.exponential() || config.bits < 5 || watch.powers.empty() ||
        known.contains(index)) {
      continue;
    }
    int64_t all = 0;
    for (const auto& [power, found] : watch.powers) all += found;
    int64_t below = 0;
    auto middle = watch.powers.begin();
    while (2 * (below += middle->second) < all) ++middle;
    const auto step =
        static_cast<double>(*std::min_element(config.scale.begin(), config.scale.end()));
    // The noise of rounding is step^2 / 12.
    const double decibels =
        10 * std::log10(12 * std::exp2(static_cast<double>(middle->first) / 2) / (step * step));
    if (decibels >= kLeastDecibels) continue;
    if (!text.empty()) {
      ++more;
      continue;
    }
    text = StrCat("value '", config.value,
                  "' has few of its codes in most samples: ", std::round(10 * decibels) / 10,
                  " dB of signal to noise, in steps of ", step, " for a range of ",
                  config.range_min, "..", config.range_max);
  }
  if (text.empty()) return;
  if (more > 0) text += StrCat(" (", more, " other values, too)");
  record.warnings.push_back(text +
                            ": keep the operators that read it in float, or give them more bits");
}

/// Ranges become scales.
void Quantizer::Impl::Activate() {
  for (const auto& [index, watch] : observers) {
    TensorQuantizationConfig& config = Config(index);
    if (Fixed(index)) {
      SetGiven(config);
      Transit(config.state, QuantizationState::kActivated, config.node);
      continue;
    }
    std::vector<Range> ranges;
    if (chosen.contains(index)) {
      ranges.push_back({config.range_min, config.range_max});
    } else if (watch.derived) {
      ranges.push_back(*watch.derived);
    } else {
      for (const auto& observer : watch.channels) {
        ranges.push_back(WithoutFlatEnds(graph, record, index, observer->Get()));
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
      record.warnings.push_back(
          StrCat("value '", config.value, "' was 0 in all calibration samples: its scale is 1"));
    } else if (config.range_max - config.range_min < 1e-16) {
      record.warnings.push_back(StrCat("value '", config.value, "' only took values below 1e-16: ",
                                       "its scale is the least that integer operators can use"));
    }
    SetScale(config, ranges);
    if (*std::max_element(config.scale.begin(), config.scale.end()) >= 1e18f) {
      record.warnings.push_back(StrCat(
          "value '", config.value, "' took values up to ",
          std::max(-config.range_min, config.range_max),
          ", more than the greatest scale of integer operators holds: ", "they are cut off"));
    }
    Transit(config.state, QuantizationState::kActivated, config.node);
  }
  SimplifySums(graph, record, [this](int index) { return Fixed(index); });
  WarnOfLostCodes(WarnOfUselessScales());
}

void Quantizer::Impl::QuantizeLayer(const Node& node, const OperatorQuantization& op) {
  const TensorQuantizationConfig& input = record.Root(op.inputs[0]);
  const double input_scale = static_cast<double>(input.scale[0]);
  const double output_scale =
      op.float_output ? 0 : static_cast<double>(record.Root(op.outputs[0]).scale[0]);
  TensorQuantizationConfig& config =
      Config(op.inputs[static_cast<size_t>(WeightSlot(node, op.rule))]);
  const Tensor& weights = node.inputs[1]->constant;
  const WeightMatrix view = ViewWeights(node, op.rule);
  const int bias_slot = BiasSlot(node, op.rule);
  std::vector<double> bias;
  if (bias_slot >= 0) bias = ReadBias(node.constant(static_cast<size_t>(bias_slot)), view.rows);
  const auto found = moments.find(node.name);
  const InputMoments* inputs =
      found != moments.end() && found->second->count() > 0 ? found->second.get() : nullptr;
  double unit = 0;  // of scales with simple multipliers
  const auto fixed = options.scales.find(node.inputs[1]->name);
  if (fixed != options.scales.end()) {
    const size_t channels = config.per_channel() ? static_cast<size_t>(view.scales) : 1;
    if (fixed->second.scale.size() != channels) {
      Fail(ErrorCode::kInvalidQuantization,
           StrCat(fixed->second.scale.size(), " scales were given for '", fixed->first, "', ",
                  channels, " are needed"),
           {.node = node.name, .value = fixed->first});
    }
    const std::vector<int32_t>& offset = fixed->second.offset;
    if (std::any_of(offset.begin(), offset.end(), [](int32_t zero) { return zero != 0; })) {
      Fail(ErrorCode::kInvalidQuantization,
           StrCat("the given zero point of the weights '", fixed->first, "' is not 0"),
           {.node = node.name,
            .value = fixed->first,
            .hint = "weights are quantized symmetrically"});
    }
    config.scale = fixed->second.scale;
    config.offset.assign(channels, 0);
    config.observer = "given";
  } else {
    // Layers that are simulated in float have no accumulators that the scales must suit.
    ScaleWeights(weights, view, input_scale, op.simulated ? 0 : output_scale,
                 op.simulated ? std::vector<double>() : bias, config, inputs);
    if (!op.float_output) {
      unit = SimplifyMultipliers(input_scale, record.Root(op.outputs[0]), config);
    }
  }
  Transit(config.state, QuantizationState::kActivated, node.name);

  const bool correct = bias_correction && bias_slot >= 0 && inputs;
  // Error feedback needs evenly spaced codes.
  const bool rounded = round_weights && inputs && !config.exotic_weight();
  LayerNoise of_rounding;
  LayerNoise of_shift;
  if (rounded && config.observer == "auto" && config.bits > 5 &&
      config.scale.size() == static_cast<size_t>(view.rows) && !(config.policy & kPowerOf2)) {
    RefineScales(weights, *inputs, correct, unit, config);
  }
  config.baked = rounded ? RoundWeights(weights, *inputs, config, correct, &of_rounding)
                         : QuantizeParameter(weights, config);
  if (correct) {
    const std::vector<double> shift = MeanShift(weights, config.baked, *inputs, config, &of_shift);
    bias.resize(shift.size());
    for (size_t i = 0; i < shift.size(); ++i) bias[i] -= shift[i];
  }
  rounding.Add(of_rounding);
  correcting.Add(of_shift);
  biases[node.name] = std::move(bias);
  if (found != moments.end()) found->second.reset();  // the matrices are large
}

/// Constant operands of Add and Mul: their own range, known exactly.
void Quantizer::Impl::QuantizeOperands(const Node& node, const OperatorQuantization& op) {
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
    const Affine affine = AffineFromRange(config.range_min, config.range_max, config);
    config.scale = {affine.scale};
    config.offset = {affine.offset};
    config.baked = QuantizeParameter(*constant, config);
    Transit(config.state, QuantizationState::kActivated, node.name);
    Transit(config.state, QuantizationState::kBaked, node.name);
  }
}

void Quantizer::Impl::Bake() {
  for (const auto& node : graph.nodes()) {
    const OperatorQuantization& op = record.operators.at(node->name);
    if (!op.quantized || WeightSlot(*node, op.rule) < 0) continue;
    TensorQuantizationConfig& weights =
        Config(op.inputs[static_cast<size_t>(WeightSlot(*node, op.rule))]);
    Transit(weights.state, QuantizationState::kBaked, node->name);
    const int bias_slot = BiasSlot(*node, op.rule);
    if (bias_slot < 0) continue;
    TensorQuantizationConfig& bias = Config(op.inputs[static_cast<size_t>(bias_slot)]);
    // With several scales for its input, or a finer one than integers have, a bias has none of its
    // own: it is added in float.
    const TensorQuantizationConfig& input = record.Root(op.inputs[0]);
    BakeBias(biases.at(node->name), input.exotic_activation() ? std::vector<float>() : input.scale,
             weights, bias);
  }
  BakePassive(graph, record);
}

}  // namespace requant
