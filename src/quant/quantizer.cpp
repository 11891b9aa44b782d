#include "quant/quantizer.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/str_cat.h"
#include "quant/affine.h"
#include "quant/analyze.h"
#include "quant/assign.h"
#include "quant/joint.h"
#include "quant/observers/auto.h"
#include "quant/prepare.h"
#include "quant/recover/recover.h"
#include "quant/sim/simulator.h"
#include "quant/weights.h"

namespace requant {
namespace {

constexpr size_t kKeptBytes = size_t{96} << 20;
constexpr int64_t kSamplesOfAuto = 64;
constexpr size_t kSamplesOfReport = 16;
constexpr uint32_t kStateMagic = 0x53715231;  // "1RqS"

bool Contains(const std::vector<std::string>& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

/// FNV-1a.
void Hash(uint64_t& hash, std::string_view text) {
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211u;
  hash = (hash ^ 0xff) * 1099511628211u;
}

/// The observers of one slot: one, or one for each channel.
struct Watch {
  std::vector<std::unique_ptr<Observer>> channels;
};

}  // namespace

struct Quantizer::Impl {
  Graph graph;
  QuantizationRecord record;
  QuantizeOptions options;
  bool round_weights = false;
  bool bias_correction = false;
  std::map<int, Watch> observers;                                // by config
  std::map<std::string, std::vector<int>> watched;               // value -> configs
  std::map<std::string, std::unique_ptr<InputMoments>> moments;  // by node
  std::map<std::string, std::vector<InputMoments*>> moments_of;  // by value
  std::vector<int64_t> samples;                                  // by pass
  int64_t first_sample = 0;
  bool probing = false;
  bool wants_auto = false;
  int64_t wanted_samples = 0;
  size_t kept_bytes = 0;
  std::vector<TensorMap> kept;
  std::map<std::string, std::vector<double>> biases;  // by node
  // Finishing.
  bool started = false;
  std::vector<const RecoveryRow*> learning;
  size_t learned = 0;
  std::unique_ptr<RecoveryJob> job;
  double before_db = 0;

  TensorQuantizationConfig& Config(int index) { return record.configs[static_cast<size_t>(index)]; }
  bool Fixed(int index) { return options.scales.contains(Config(index).value); }

  void CheckOptions();
  void PlanObservers();
  void PlanMoments();
  void MakeChannels(int index, Watch& watch, size_t count);
  void Watching(int pass, int index, const Tensor& tensor);
  void Fields(int pass, StateBytes& state);
  void Activate();
  void SetScale(TensorQuantizationConfig& config, const std::vector<Range>& ranges);
  void QuantizeLayer(const Node& node, const OperatorQuantization& op);
  void QuantizeOperands(const Node& node, const OperatorQuantization& op);
  void Start();
  void Bake();
  double OutputSnr();
  FinishProgress Analyze();
};

void Quantizer::Impl::CheckOptions() {
  for (const std::string& method : options.recover) {
    if (FindRecovery(method) != nullptr) continue;
    std::string known;
    for (const RecoveryRow& row : RecoveryTable()) {
      known += StrCat(known.empty() ? "" : ", ", row.name);
    }
    Fail(ErrorCode::kInvalidArgument, StrCat("there is no recovery method '", method, "'"),
         {.hint = StrCat("use ", known)});
  }
  if (options.recover_samples < 1 || options.recover_steps < 0) {
    Fail(ErrorCode::kInvalidArgument, "recovery needs at least one sample and no negative steps");
  }
  round_weights = Contains(options.recover, "round_weights");
  bias_correction = Contains(options.recover, "bias_correction");
  for (const RecoveryRow& row : RecoveryTable()) {
    if (row.stage == RecoveryStage::kLearn && Contains(options.recover, row.name)) {
      learning.push_back(&row);
      wanted_samples = options.recover_samples;
    }
  }
  for (const auto& [value, fixed] : options.scales) {
    for (const float scale : fixed.scale) {
      if (scale > 0 && std::isfinite(scale)) continue;
      Fail(ErrorCode::kInvalidQuantization, StrCat("the given scale of '", value, "' is ", scale),
           {.value = value, .hint = "scales are positive numbers"});
    }
    if (fixed.scale.empty() ||
        (!fixed.offset.empty() && fixed.offset.size() != fixed.scale.size())) {
      Fail(ErrorCode::kInvalidQuantization,
           StrCat("the given scales and zero points of '", value, "' do not fit each other"),
           {.value = value});
    }
  }
}

void Quantizer::Impl::PlanObservers() {
  int passes = 1;
  for (size_t i = 0; i < record.configs.size(); ++i) {
    const TensorQuantizationConfig& config = record.configs[i];
    if (config.state != QuantizationState::kInitial) continue;
    const Value* value = graph.FindValue(config.value);
    if (value == nullptr || value->is_constant()) continue;
    const auto index = static_cast<int>(i);
    Watch& watch = observers[index];
    watched[config.value].push_back(index);
    if (Fixed(index)) continue;
    const auto observer = MakeObserver(config);
    passes = std::max(passes, observer->passes());
    wants_auto = wants_auto || config.observer == "auto";
    if (!config.per_channel()) MakeChannels(index, watch, 1);
  }
  if (options.analyze) wanted_samples = std::max<int64_t>(wanted_samples, 8);
  if (wants_auto) wanted_samples = std::max(wanted_samples, kSamplesOfAuto);
  samples.assign(static_cast<size_t>(passes), 0);
  for (const auto& [value, fixed] : options.scales) {
    if (graph.FindValue(value) == nullptr) {
      record.warnings.push_back(
          StrCat("a scale was given for '", value, "', which is no value of the network: ignored"));
    }
  }
}

void Quantizer::Impl::MakeChannels(int index, Watch& watch, size_t count) {
  if (watch.channels.empty()) {
    for (size_t i = 0; i < count; ++i) watch.channels.push_back(MakeObserver(Config(index)));
  }
  if (watch.channels.size() == count) return;
  const std::string& value = Config(index).value;
  Fail(ErrorCode::kShapeMismatch,
       StrCat("value '", value, "' has ", count, " channels here and ", watch.channels.size(),
              " in earlier samples"),
       {.value = value, .hint = "quantize it per tensor"});
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
  impl_->options = options;
  impl_->CheckOptions();
  impl_->graph = PrepareFloatGraph(float_graph);
  std::vector<RecoveryStep> rewritten;
  for (const RecoveryRow& row : RecoveryTable()) {
    if (row.stage != RecoveryStage::kGraph || !Contains(options.recover, row.name)) continue;
    rewritten.push_back({row.name, 0, 0, row.rewrite(impl_->graph, options)});
  }
  impl_->record = AssignConfigs(impl_->graph, options);
  impl_->record.recovery = std::move(rewritten);
  JoinConfigs(impl_->graph, impl_->record);
  MarkSimulated(impl_->graph, impl_->record);
  impl_->PlanObservers();
  impl_->PlanMoments();
}

Quantizer::~Quantizer() = default;
Quantizer::Quantizer(Quantizer&&) noexcept = default;
Quantizer& Quantizer::operator=(Quantizer&&) noexcept = default;

const Graph& Quantizer::graph() const { return impl_->graph; }

int Quantizer::passes() const { return static_cast<int>(impl_->samples.size()); }

std::vector<std::string> Quantizer::observed_values(int pass) const {
  std::vector<std::string> names;
  for (const auto& [name, configs] : impl_->watched) {
    const bool needed = std::any_of(configs.begin(), configs.end(), [&](int config) {
      return !impl_->Fixed(config) && MakeObserver(impl_->Config(config))->passes() > pass;
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

void Quantizer::Impl::Watching(int pass, int index, const Tensor& tensor) {
  if (Fixed(index)) return;
  Watch& watch = observers.at(index);
  const TensorQuantizationConfig& config = Config(index);
  const std::span<const float> values = tensor.values<float>();
  const int64_t row = tensor.rank() == 0 ? 1 : tensor.shape().back();
  if (!config.per_channel()) {
    Observer& observer = *watch.channels[0];
    if (pass < observer.passes()) observer.Observe(pass, values, row);
    return;
  }
  if (config.axis >= tensor.rank()) {
    Fail(ErrorCode::kInvalidQuantization,
         StrCat("value '", config.value, "' has no axis ", config.axis),
         {.node = config.node, .value = config.value, .hint = "choose another axis"});
  }
  const ChannelView view = ViewChannels(tensor.shape(), config.axis);
  MakeChannels(index, watch, static_cast<size_t>(view.channels));
  for (size_t at = 0; at < values.size(); at += static_cast<size_t>(view.inner)) {
    const size_t channel = at / static_cast<size_t>(view.inner) % watch.channels.size();
    Observer& observer = *watch.channels[channel];
    if (pass < observer.passes()) {
      observer.Observe(pass, values.subspan(at, static_cast<size_t>(view.inner)), view.inner);
    }
  }
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
  const int64_t sample = impl_->first_sample + impl_->samples[static_cast<size_t>(pass)];
  const std::span<const float> values = tensor.values<float>();
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    Fail(ErrorCode::kInvalidArgument,
         StrCat("value '", value, "' is ", std::isnan(values[i]) ? "NaN" : "infinite", " at index ",
                i, " of calibration sample ", sample),
         {.value = value, .hint = "remove the sample or repair the model"});
  }
  if (watched != impl_->watched.end() && !impl_->probing) {
    for (const int config : watched->second) impl_->Watching(pass, config, tensor);
  }
  if (pass == 0 && layers != impl_->moments_of.end()) {
    for (InputMoments* moments : layers->second) {
      if (impl_->probing) {
        moments->Probe(tensor);
      } else {
        moments->Observe(tensor, static_cast<uint32_t>(sample));
      }
    }
  }
}

void Quantizer::EndSample(int pass) {
  if (pass < 0 || pass >= passes()) {
    Fail(ErrorCode::kInvalidArgument, StrCat("there is no calibration pass ", pass));
  }
  if (impl_->probing) return;
  ++impl_->samples[static_cast<size_t>(pass)];
  for (const auto& [config, watch] : impl_->observers) {
    for (const auto& observer : watch.channels) {
      if (pass < observer->passes()) observer->EndSample(pass);
    }
  }
}

void Quantizer::Keep(const TensorMap& feeds) {
  if (impl_->probing || static_cast<int64_t>(impl_->kept.size()) >= impl_->wanted_samples) return;
  size_t bytes = 0;
  for (const auto& [name, tensor] : feeds) bytes += tensor.bytes();
  if (!impl_->kept.empty() && impl_->kept_bytes + bytes > kKeptBytes) return;
  impl_->kept_bytes += bytes;
  TensorMap copy;
  for (const auto& [name, tensor] : feeds) copy[name] = tensor.Clone();
  impl_->kept.push_back(std::move(copy));
}

void Quantizer::SetFirstSample(int64_t index) { impl_->first_sample = index; }
void Quantizer::SetProbing(bool probing) { impl_->probing = probing; }

void Quantizer::Impl::Fields(int pass, StateBytes& state) {
  uint64_t hash = 14695981039346656037u;
  for (const auto& [index, watch] : observers) {
    const TensorQuantizationConfig& config = Config(index);
    Hash(hash, config.value);
    Hash(hash, StrCat(config.observer, config.policy, config.bits, config.percentile,
                      config.momentum, config.stop_after));
  }
  for (const auto& [name, layer] : moments) Hash(hash, name);
  uint32_t magic = kStateMagic;
  int32_t its_pass = pass;
  uint64_t its_hash = hash;
  state.Value(magic);
  state.Value(its_pass);
  state.Value(its_hash);
  if (magic != kStateMagic || its_hash != hash || its_pass != pass) {
    Fail(ErrorCode::kInvalidArgument,
         magic != kStateMagic ? "this is no calibration state"
         : its_pass != pass   ? StrCat("the calibration state is one of pass ", its_pass)
                              : "the calibration state is one of another network or other options",
         {.hint = "shards need the same model, the same options and the same pass"});
  }
  state.Value(samples[static_cast<size_t>(pass)]);
  for (auto& [index, watch] : observers) {
    uint64_t channels = watch.channels.size();
    state.Value(channels);
    if (state.reading() && channels > 0) MakeChannels(index, watch, static_cast<size_t>(channels));
    for (const auto& observer : watch.channels) {
      if (pass < observer->passes()) observer->Fields(state, pass);
    }
  }
  if (pass > 0) return;
  for (const auto& [name, layer] : moments) layer->Fields(state);
  uint64_t count = kept.size();
  state.Value(count);
  for (uint64_t i = 0; i < count; ++i) {
    if (state.reading()) kept.emplace_back();
    TensorMap& sample = kept[static_cast<size_t>(i)];
    for (const Value* input : graph.inputs()) {
      Tensor& tensor = sample[input->name];
      auto dtype = static_cast<uint8_t>(tensor.dtype());
      std::vector<int64_t> shape = tensor.shape();
      state.Value(dtype);
      state.List(shape);
      if (dtype == 0) continue;
      if (state.reading()) tensor = Tensor(static_cast<DType>(dtype), shape);
      state.Raw(tensor.raw(), tensor.bytes());
    }
  }
}

std::vector<uint8_t> Quantizer::SaveState(int pass) {
  StateBytes state;
  impl_->Fields(pass, state);
  return state.Take();
}

void Quantizer::LoadState(int pass, std::span<const uint8_t> bytes) {
  StateBytes state(bytes);
  if (pass == 0) impl_->kept.clear();
  impl_->Fields(pass, state);
}

void Quantizer::MergeState(int pass, std::span<const uint8_t> bytes) {
  Impl& own = *impl_;
  Impl other;
  other.graph = own.graph.Clone();
  other.record = own.record;
  other.options = own.options;
  other.round_weights = own.round_weights;
  other.bias_correction = own.bias_correction;
  other.PlanObservers();
  other.PlanMoments();
  StateBytes state(bytes);
  other.Fields(pass, state);
  for (auto& [index, watch] : own.observers) {
    const Watch& later = other.observers.at(index);
    if (later.channels.empty()) continue;
    own.MakeChannels(index, watch, later.channels.size());
    for (size_t i = 0; i < watch.channels.size(); ++i) {
      if (pass < watch.channels[i]->passes()) {
        watch.channels[i]->Merge(*later.channels[i], pass);
      }
    }
  }
  own.samples[static_cast<size_t>(pass)] += other.samples[static_cast<size_t>(pass)];
  if (pass > 0) return;
  for (const auto& [name, layer] : own.moments) layer->Merge(*other.moments.at(name));
  for (TensorMap& sample : other.kept) Keep(sample);
}

void Quantizer::Impl::SetScale(TensorQuantizationConfig& config, const std::vector<Range>& ranges) {
  config.scale.clear();
  config.offset.clear();
  for (const Range& range : ranges) {
    Affine affine = AffineFromRange(range.min, range.max, config);
    if (config.formula == ScaleFormula::kGoogle && !config.exotic_activation() &&
        (affine.offset < config.quant_min || affine.offset > config.quant_max)) {
      record.warnings.push_back(StrCat("the range of value '", config.value,
                                       "' does not hold 0, which integer operators ",
                                       "need: it was widened"));
      affine = AffineFromRange(std::min(range.min, 0.0), std::max(range.max, 0.0), config);
    }
    config.scale.push_back(affine.scale);
    config.offset.push_back(affine.offset);
  }
}

/// Ranges become scales.
void Quantizer::Impl::Activate() {
  std::map<int, std::vector<RangeProposal>> proposals;
  for (const auto& [index, watch] : observers) {
    TensorQuantizationConfig& config = Config(index);
    if (config.observer != "auto" || config.per_channel() || Fixed(index)) continue;
    for (const auto& proposal : static_cast<const AutoObserver&>(*watch.channels[0]).Proposals()) {
      proposals[index].push_back({proposal.observer, proposal.range});
    }
  }
  if (!proposals.empty()) {
    const size_t count = std::min(kept.size(), static_cast<size_t>(kSamplesOfAuto));
    if (count == 0) {
      record.warnings.push_back(
          "observer 'auto' had no samples to try: least squared error is used");
    }
    ChooseRanges(graph, record, proposals, std::span(kept).subspan(0, count));
  }
  for (const auto& [index, watch] : observers) {
    TensorQuantizationConfig& config = Config(index);
    if (Fixed(index)) {
      const FixedScale& fixed = options.scales.at(config.value);
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
      Transit(config.state, QuantizationState::kActivated, config.node);
      continue;
    }
    std::vector<Range> ranges;
    if (proposals.contains(index)) {
      ranges.push_back({config.range_min, config.range_max});
    } else {
      for (const auto& observer : watch.channels) ranges.push_back(observer->Get());
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
    Transit(config.state, QuantizationState::kActivated, config.node);
  }
}

void Quantizer::Impl::QuantizeLayer(const Node& node, const OperatorQuantization& op) {
  const TensorQuantizationConfig& input = record.Root(op.inputs[0]);
  const double input_scale = static_cast<double>(input.scale[0]);
  const double output_scale = static_cast<double>(record.Root(op.outputs[0]).scale[0]);
  TensorQuantizationConfig& config =
      Config(op.inputs[static_cast<size_t>(WeightSlot(node, op.rule))]);
  const Tensor& weights = node.inputs[1]->constant;
  const WeightMatrix view = ViewWeights(node, op.rule);
  const int bias_slot = BiasSlot(node, op.rule);
  std::vector<double> bias;
  if (bias_slot >= 0) bias = ReadBias(node.constant(static_cast<size_t>(bias_slot)), view.rows);
  for (const float value : weights.values<float>()) {
    if (std::isfinite(value)) continue;
    Fail(ErrorCode::kInvalidModel, StrCat("the weights of '", node.name, "' hold NaN or infinity"),
         {.node = node.name, .value = node.inputs[1]->name, .hint = "repair the model"});
  }
  const auto found = moments.find(node.name);
  const InputMoments* inputs =
      found != moments.end() && found->second->count() > 0 ? found->second.get() : nullptr;
  const auto fixed = options.scales.find(node.inputs[1]->name);
  if (fixed != options.scales.end()) {
    const size_t channels = config.per_channel() ? static_cast<size_t>(view.rows) : 1;
    if (fixed->second.scale.size() != channels) {
      Fail(ErrorCode::kInvalidQuantization,
           StrCat(fixed->second.scale.size(), " scales were given for '", fixed->first, "', ",
                  channels, " are needed"),
           {.node = node.name, .value = fixed->first});
    }
    config.scale = fixed->second.scale;
    config.offset.assign(channels, 0);
    config.observer = "given";
  } else {
    ScaleWeights(weights, view, input_scale, output_scale, bias, config, inputs);
  }
  Transit(config.state, QuantizationState::kActivated, node.name);

  const bool correct = bias_correction && bias_slot >= 0 && inputs;
  // Error feedback needs evenly spaced codes.
  const bool rounded = round_weights && inputs && !config.exotic_weight();
  config.baked = rounded ? RoundWeights(weights, *inputs, config, correct)
                         : QuantizeParameter(weights, config);
  if (correct) {
    const std::vector<double> shift = MeanShift(weights, config.baked, *inputs, config);
    bias.resize(shift.size());
    for (size_t i = 0; i < shift.size(); ++i) bias[i] -= shift[i];
  }
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

void Quantizer::Impl::Start() {
  for (size_t pass = 0; pass < samples.size(); ++pass) {
    const bool needless = moments.empty() && observers.empty();
    bool all_given = !observers.empty();
    for (const auto& [index, watch] : observers) all_given = all_given && Fixed(index);
    if (samples[pass] > 0 || needless || (all_given && learning.empty())) continue;
    Fail(ErrorCode::kInvalidArgument, StrCat("calibration pass ", pass, " has seen no sample"),
         {.hint = "give at least one calibration sample; some hundred are better"});
  }
  Activate();
  for (const auto& node : graph.nodes()) {
    const OperatorQuantization& op = record.operators.at(node->name);
    if (!op.quantized) continue;
    try {
      if (WeightSlot(*node, op.rule) >= 0) {
        QuantizeLayer(*node, op);
      } else {
        QuantizeOperands(*node, op);
      }
    } catch (Error& error) {
      error.AddNode(node->name);
      throw;
    }
  }
}

/// Of the simulated network against float, over some kept samples.
double Quantizer::Impl::OutputSnr() {
  Simulator simulator(graph, record);
  for (const auto& [name, bias] : biases) simulator.SetWeights(graph.FindNode(name), &bias);
  SnrMeter meter;
  for (size_t i = 0; i < std::min(kept.size(), kSamplesOfReport); ++i) {
    // From the end: learning sees all of them, but this is the same for every method.
    const TensorMap& sample = kept[kept.size() - 1 - i];
    const std::vector<Tensor> wanted = simulator.Outputs(sample, SimMode::kFloat);
    const std::vector<Tensor> got = simulator.Outputs(sample, SimMode::kQuantized);
    for (size_t j = 0; j < wanted.size(); ++j) meter.Add(wanted[j], got[j]);
  }
  return meter.Decibels();
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
    // With several scales for its input a bias has none of its own: it is added in float.
    BakeBias(biases.at(node->name), record.Root(op.inputs[0]).scale, weights, bias);
  }
  BakePassive(graph, record);
}

FinishProgress Quantizer::Step() {
  Impl& impl = *impl_;
  const auto total = static_cast<int64_t>(impl.learning.size()) + 1;
  const bool analyze = impl.options.analyze && impl.record.analysis.empty();
  if (!impl.started) {
    impl.Start();
    impl.started = true;
    if (impl.learning.empty()) return {"round", 1, 1, !analyze};
    impl.before_db = impl.OutputSnr();
    return {"round", 1, total, false};
  }
  if (impl.learned >= impl.learning.size())
    return analyze ? impl.Analyze() : FinishProgress{"round", total, total, true};
  const RecoveryRow& row = *impl.learning[impl.learned];
  if (!impl.job) {
    impl.job = row.make({impl.graph, impl.record, impl.options, impl.kept, impl.biases});
  }
  FinishProgress progress = impl.job->Step();
  progress.method = row.name;
  if (!progress.finished) return progress;
  const double after = impl.OutputSnr();
  impl.record.recovery.push_back({row.name, impl.before_db, after, impl.job->detail()});
  impl.before_db = after;
  impl.job.reset();
  progress.finished = ++impl.learned == impl.learning.size() && !analyze;
  return progress;
}

FinishProgress Quantizer::Impl::Analyze() {
  if (!job) job = MakeAnalysis({graph, record, options, kept, biases});
  FinishProgress progress = job->Step();
  if (progress.finished) {
    record.analysis = job->detail();
    job.reset();
  }
  return progress;
}

QuantizedModel Quantizer::Finish() {
  while (!Step().finished) {
  }
  impl_->Bake();
  QuantizedModel model{std::move(impl_->graph), std::move(impl_->record)};
  impl_->observers.clear();
  impl_->moments_of.clear();
  impl_->moments.clear();
  impl_->kept.clear();
  return model;
}

}  // namespace requant
