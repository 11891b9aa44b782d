#include "quant/quantizer.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/str_cat.h"
#include "quant/affine.h"
#include "quant/assign.h"
#include "quant/joint.h"
#include "quant/observers/observer.h"
#include "quant/prepare.h"
#include "quant/recover/recover.h"
#include "quant/weights.h"

namespace requant {
namespace {

constexpr const char* kRoundWeights = "round_weights";
constexpr const char* kBiasCorrection = "bias_correction";

bool Contains(const std::vector<std::string>& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

}  // namespace

struct Quantizer::Impl {
  Graph graph;
  QuantizationRecord record;
  bool round_weights = false;
  bool bias_correction = false;
  std::map<int, std::unique_ptr<Observer>> observers;            // by config
  std::map<std::string, std::vector<int>> watched;               // value -> configs
  std::map<std::string, std::unique_ptr<InputMoments>> moments;  // by node
  std::map<std::string, std::vector<InputMoments*>> moments_of;  // by value
  std::vector<int64_t> samples;                                  // by pass

  TensorQuantizationConfig& Config(int index) { return record.configs[static_cast<size_t>(index)]; }

  void PlanObservers();
  void PlanMoments();
  void Activate();
  void QuantizeLayer(const Node& node, const OperatorQuantization& op);
  void QuantizeOperands(const Node& node, const OperatorQuantization& op);
};

void Quantizer::Impl::PlanObservers() {
  int passes = 1;
  for (size_t i = 0; i < record.configs.size(); ++i) {
    const TensorQuantizationConfig& config = record.configs[i];
    if (config.state != QuantizationState::kInitial) continue;
    const Value* value = graph.FindValue(config.value);
    if (value == nullptr || value->is_constant()) continue;
    const auto index = static_cast<int>(i);
    auto observer = MakeObserver(config);
    passes = std::max(passes, observer->passes());
    observers[index] = std::move(observer);
    watched[config.value].push_back(index);
  }
  samples.assign(static_cast<size_t>(passes), 0);
}

void Quantizer::Impl::PlanMoments() {
  if (!round_weights && !bias_correction) return;
  for (const auto& node : graph.nodes()) {
    const OperatorQuantization& op = record.operators.at(node->name);
    if (!op.quantized || WeightSlot(*node, op.rule) < 0) continue;
    auto made = std::make_unique<InputMoments>(*node, op.rule);
    moments_of[node->inputs[0]->name].push_back(made.get());
    moments[node->name] = std::move(made);
  }
}

Quantizer::Quantizer(const Graph& float_graph, const QuantizeOptions& options)
    : impl_(std::make_unique<Impl>()) {
  for (const std::string& method : options.recover) {
    if (method != kRoundWeights && method != kBiasCorrection) {
      Fail(ErrorCode::kInvalidArgument, StrCat("there is no recovery method '", method, "'"),
           {.hint = StrCat("use ", kRoundWeights, " or ", kBiasCorrection)});
    }
  }
  impl_->round_weights = Contains(options.recover, kRoundWeights);
  impl_->bias_correction = Contains(options.recover, kBiasCorrection);
  impl_->graph = PrepareFloatGraph(float_graph);
  impl_->record = AssignConfigs(impl_->graph, options);
  JoinConfigs(impl_->graph, impl_->record);
  impl_->PlanObservers();
  impl_->PlanMoments();
}

Quantizer::~Quantizer() = default;
Quantizer::Quantizer(Quantizer&&) noexcept = default;
Quantizer& Quantizer::operator=(Quantizer&&) noexcept = default;

int Quantizer::passes() const { return static_cast<int>(impl_->samples.size()); }

std::vector<std::string> Quantizer::observed_values(int pass) const {
  std::vector<std::string> names;
  for (const auto& [name, configs] : impl_->watched) {
    const bool needed = std::any_of(configs.begin(), configs.end(), [&](int config) {
      return impl_->observers.at(config)->passes() > pass;
    });
    if (needed) names.push_back(name);
  }
  if (pass == 0) {
    for (const auto& [name, layers] : impl_->moments_of) {
      if (!Contains(names, name)) names.push_back(name);
    }
  }
  return names;
}

void Quantizer::Observe(int pass, const std::string& value, const Tensor& tensor) {
  if (pass < 0 || pass >= passes()) {
    Fail(ErrorCode::kInvalidArgument, StrCat("there is no calibration pass ", pass));
  }
  const auto watched = impl_->watched.find(value);
  const auto layers = impl_->moments_of.find(value);
  if (watched == impl_->watched.end() && layers == impl_->moments_of.end()) {
    Fail(ErrorCode::kInvalidArgument, StrCat("value '", value, "' is not observed"),
         {.value = value, .hint = "pass the values of observed_values()"});
  }
  const std::span<const float> values = tensor.values<float>();
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    Fail(ErrorCode::kInvalidArgument,
         StrCat("value '", value, "' is ", std::isnan(values[i]) ? "NaN" : "infinite", " at index ",
                i, " of calibration sample ", impl_->samples[static_cast<size_t>(pass)]),
         {.value = value, .hint = "remove the sample or repair the model"});
  }
  if (watched != impl_->watched.end()) {
    for (const int config : watched->second) {
      Observer& observer = *impl_->observers.at(config);
      if (pass < observer.passes()) observer.Observe(pass, values);
    }
  }
  if (pass == 0 && layers != impl_->moments_of.end()) {
    const auto seed = static_cast<uint32_t>(impl_->samples[0]);
    for (InputMoments* moments : layers->second) moments->Observe(tensor, seed);
  }
}

void Quantizer::EndSample(int pass) {
  if (pass < 0 || pass >= passes()) {
    Fail(ErrorCode::kInvalidArgument, StrCat("there is no calibration pass ", pass));
  }
  ++impl_->samples[static_cast<size_t>(pass)];
  for (const auto& [config, observer] : impl_->observers) {
    if (pass < observer->passes()) observer->EndSample(pass);
  }
}

/// Ranges become scales.
void Quantizer::Impl::Activate() {
  for (const auto& [index, observer] : observers) {
    TensorQuantizationConfig& config = Config(index);
    const Range range = observer->Get();
    config.range_min = std::min(0.0, range.min);
    config.range_max = std::max(0.0, range.max);
    if (!(config.range_max > config.range_min)) {
      record.warnings.push_back(
          StrCat("value '", config.value, "' was 0 in all calibration samples"));
    }
    const Affine affine = AffineFromRange(range.min, range.max, config);
    config.scale = {affine.scale};
    config.offset = {affine.offset};
    Transit(config.state, QuantizationState::kActivated, config.node);
  }
}

void Quantizer::Impl::QuantizeLayer(const Node& node, const OperatorQuantization& op) {
  const double input_scale = static_cast<double>(record.Root(op.inputs[0]).scale[0]);
  const double output_scale = static_cast<double>(record.Root(op.outputs[0]).scale[0]);
  TensorQuantizationConfig& config =
      Config(op.inputs[static_cast<size_t>(WeightSlot(node, op.rule))]);
  const Tensor& weights = node.inputs[1]->constant;
  const WeightMatrix view = ViewWeights(node, op.rule);
  const int bias_slot = BiasSlot(node, op.rule);
  std::vector<double> bias;
  if (bias_slot >= 0) bias = ReadBias(node.constant(static_cast<size_t>(bias_slot)), view.rows);
  ScaleWeights(weights, view, input_scale, output_scale, bias, config);
  Transit(config.state, QuantizationState::kActivated, node.name);

  const auto found = moments.find(node.name);
  const InputMoments* inputs =
      found != moments.end() && found->second->count() > 0 ? found->second.get() : nullptr;
  const bool correct = bias_correction && bias_slot >= 0 && inputs;
  config.baked = round_weights && inputs ? RoundWeights(weights, *inputs, config, correct)
                                         : QuantizeParameter(weights, config);
  Transit(config.state, QuantizationState::kBaked, node.name);
  if (correct) {
    const std::vector<double> shift = MeanShift(weights, config.baked, *inputs, config);
    bias.resize(shift.size());
    for (size_t i = 0; i < shift.size(); ++i) bias[i] -= shift[i];
  }
  if (bias_slot >= 0) {
    BakeBias(bias, input_scale, config, Config(op.inputs[static_cast<size_t>(bias_slot)]));
  }
  if (found != moments.end()) found->second.reset();  // the matrices are large
}

/// Constant operands of Add and Mul: their own range, known exactly.
void Quantizer::Impl::QuantizeOperands(const Node& node, const OperatorQuantization& op) {
  for (size_t slot = 0; slot < op.inputs.size(); ++slot) {
    const Tensor* constant = node.constant(slot);
    if (op.inputs[slot] < 0 || constant == nullptr) continue;
    TensorQuantizationConfig& config = Config(op.inputs[slot]);
    if (config.state != QuantizationState::kInitial) continue;
    for (const float value : constant->values<float>()) {
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

QuantizedModel Quantizer::Finish() {
  for (size_t pass = 0; pass < impl_->samples.size(); ++pass) {
    if (impl_->samples[pass] > 0) continue;
    Fail(ErrorCode::kInvalidArgument, StrCat("calibration pass ", pass, " has seen no sample"),
         {.hint = "give at least one calibration sample; some hundred are better"});
  }
  impl_->Activate();
  for (const auto& node : impl_->graph.nodes()) {
    const OperatorQuantization& op = impl_->record.operators.at(node->name);
    if (!op.quantized) continue;
    try {
      if (WeightSlot(*node, op.rule) >= 0) {
        impl_->QuantizeLayer(*node, op);
      } else {
        impl_->QuantizeOperands(*node, op);
      }
    } catch (Error& error) {
      error.AddNode(node->name);
      throw;
    }
  }
  BakePassive(impl_->graph, impl_->record);
  QuantizedModel model{std::move(impl_->graph), std::move(impl_->record)};
  impl_->observers.clear();
  impl_->moments_of.clear();
  impl_->moments.clear();
  return model;
}

}  // namespace requant
