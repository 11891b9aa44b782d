#include "quant/quantizer.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/str_cat.h"
#include "quant/analyze.h"
#include "quant/assign/assign.h"
#include "quant/assign/joint.h"
#include "quant/graph/prepare.h"
#include "quant/quantizer_impl.h"
#include "quant/recover/choose_float/float_trials.h"
#include "quant/recover/recover.h"
#include "quant/unheeded_options.h"
#include "quant/weights/float_weights.h"

namespace requant {
namespace {

constexpr int64_t kSamplesOfRecovery = 256;
constexpr size_t kSamplesOfReport = 64;
constexpr int64_t kSmallOutputs = 1 << 16;  // elements, of one sample

/// Said before anybody waits for a calibration.
void CheckWeights(const Graph& graph, const QuantizationRecord& record) {
  for (const auto& node : graph.nodes()) {
    const OperatorQuantization& op = record.operators.at(node->name);
    if (!op.quantized || WeightSlot(*node, op.rule) < 0) continue;
    for (const int slot : {WeightSlot(*node, op.rule), BiasSlot(*node, op.rule)}) {
      const Tensor* values = slot < 0 ? nullptr : node->constant(static_cast<size_t>(slot));
      if (values == nullptr || values->dtype() != DType::kFloat32) continue;
      for (const float value : values->values<float>()) {
        if (std::isfinite(value)) continue;
        Fail(ErrorCode::kInvalidModel,
             StrCat("the weights of '", node->name, "' hold NaN or infinity"),
             {.node = node->name,
              .value = node->inputs[static_cast<size_t>(slot)]->name,
              .hint = "repair the model"});
      }
    }
  }
}

}  // namespace

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
  if (options.recover_samples < 0 || options.recover_steps < 0) {
    Fail(ErrorCode::kInvalidArgument, "recovery takes no negative number of samples or steps");
  }
  const int64_t most = options.recover_samples > 0 ? options.recover_samples : kSamplesOfRecovery;
  round_weights = Contains(options.recover, "round_weights");
  bias_correction = Contains(options.recover, "bias_correction");
  for (const RecoveryRow& row : RecoveryTable()) {
    const bool chooses = row.stage == RecoveryStage::kChoose;
    if ((!chooses && row.stage != RecoveryStage::kLearn) || !Contains(options.recover, row.name)) {
      continue;
    }
    learning.push_back(&row);
    const int64_t wanted = chooses && options.quick_choices ? std::min(kQuickSamples, most) : most;
    wanted_samples = std::max(wanted_samples, wanted);
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

Quantizer::Quantizer(const Graph& float_graph, const QuantizeOptions& options)
    : impl_(std::make_unique<Impl>()) {
  impl_->options = options;
  impl_->CheckOptions();
  impl_->graph = PrepareFloatGraph(float_graph);
  NormalizeForms(impl_->graph);
  impl_->record = AssignConfigs(impl_->graph, options);
  CheckWeights(impl_->graph, impl_->record);
  std::vector<RecoveryStep> rewritten;
  std::vector<const char*> idle;
  for (const RecoveryRow& row : RecoveryTable()) {
    if (row.stage != RecoveryStage::kGraph || !Contains(options.recover, row.name)) continue;
    const double before = WeightsSnr(impl_->graph, options);
    const Rewritten made = row.rewrite(impl_->graph, options);
    if (made.changes == 0) idle.push_back(row.name);
    rewritten.push_back({row.name, before, WeightsSnr(impl_->graph, options),
                         StrCat(made.detail, "; dB of an output channel's weights")});
  }
  if (!rewritten.empty()) impl_->record = AssignConfigs(impl_->graph, options);
  for (const char* method : idle) impl_->WarnOfIdle(method);
  impl_->record.recovery = std::move(rewritten);
  JoinConfigs(impl_->graph, impl_->record);
  MarkSimulated(impl_->graph, impl_->record);
  if (Contains(options.recover, "equalize_activations")) {
    impl_->equalizer = std::make_unique<ActivationEqualizer>(impl_->graph, impl_->record);
    impl_->first_pass = ActivationEqualizer::kPasses;
    impl_->wanted_samples = std::max<int64_t>(impl_->wanted_samples, 1);
  }
  impl_->FindFilled();
  impl_->PlanObservers();
  impl_->PlanMoments();
}

Quantizer::~Quantizer() = default;
Quantizer::Quantizer(Quantizer&&) noexcept = default;
Quantizer& Quantizer::operator=(Quantizer&&) noexcept = default;

const Graph& Quantizer::graph() const { return impl_->graph; }

void Quantizer::Impl::CheckSamples() const {
  for (size_t pass = 0; pass < samples.size(); ++pass) {
    const bool needless = moments.empty() && observers.empty();
    bool all_given = !observers.empty();
    for (const auto& [index, watch] : observers) {
      all_given = all_given && options.scales.contains(record.configs[index].value);
    }
    if (samples[pass] > 0 || needless || (all_given && learning.empty())) continue;
    Fail(ErrorCode::kInvalidArgument, StrCat("calibration pass ", pass, " has seen no sample"),
         {.hint = "give at least one calibration sample; some hundred are better"});
  }
}

/// Scales, then one node after the other.
FinishProgress Quantizer::Impl::QuantizeNext() {
  const auto count = static_cast<int64_t>(graph.nodes().size());
  if (next_node == 0) Activate();
  while (next_node < graph.nodes().size()) {
    const Node& node = *graph.nodes()[next_node++];
    const OperatorQuantization& op = record.operators.at(node.name);
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
  const bool last = next_node == graph.nodes().size();
  if (last) {
    RecordGain("round_weights", rounding);
    RecordGain("bias_correction", correcting);
    if (!learning.empty()) before = OutputSnr();
  }
  return {"round", static_cast<int64_t>(next_node), count, last};
}

/// Who asks for a method by name should know that it had nothing to do.
void Quantizer::Impl::WarnOfIdle(const char* method) {
  if (!options.recover_named) return;
  record.warnings.push_back(
      StrCat("the recovery method '", method, "' found nothing in this network to work on"));
}

void Quantizer::Impl::RecordGain(const char* method, const LayersGain& gain) {
  if (gain.layers == 0) {
    if (Contains(options.recover, method)) WarnOfIdle(method);
    return;
  }
  record.recovery.push_back(
      {method, gain.before / gain.layers, gain.after / gain.layers,
       StrCat("errors of weights in the outputs of ", gain.layers, " layers")});
}

/// Of the simulated network against float, over some kept samples.
SnrMeter Quantizer::Impl::OutputSnr() {
  Simulator simulator(graph, record);
  for (const auto& [name, bias] : biases) simulator.SetWeights(graph.FindNode(name), &bias);
  SnrMeter meter;
  const size_t most = options.quick_choices ? kSamplesOfReport / 16 : kSamplesOfReport;
  for (size_t i = 0; i < std::min(kept.size(), most); ++i) {
    // From the end: learning sees all of them, but this is the same for every method.
    const TensorMap& sample = kept[kept.size() - 1 - i];
    const std::vector<Tensor> wanted = FloatOutputs(simulator, i, sample);
    const std::vector<Tensor> got = simulator.Outputs(sample, SimMode::kQuantized);
    for (size_t j = 0; j < wanted.size(); ++j) meter.Add(wanted[j], got[j]);
  }
  return meter;
}

/// Of the i-th sample that is reported on. They stay the same, and small ones are kept.
std::vector<Tensor> Quantizer::Impl::FloatOutputs(Simulator& simulator, size_t i,
                                                  const TensorMap& sample) {
  if (i < float_outputs.size()) return float_outputs[i];
  std::vector<Tensor> made = simulator.Outputs(sample, SimMode::kFloat);
  int64_t elements = 0;
  for (const Tensor& output : made) elements += output.count();
  if (i == float_outputs.size() && elements <= kSmallOutputs) float_outputs.push_back(made);
  return made;
}

FinishProgress Quantizer::Step() {
  Impl& impl = *impl_;
  if (impl.finished) {
    Fail(ErrorCode::kInvalidArgument, "the calibration is finished",
         {.hint = "begin another to quantize the model again"});
  }
  const bool analyze = impl.options.analyze && impl.record.analysis.empty();
  if (!impl.started) {
    impl.CheckSamples();
    if (impl.samples.front() == 1 && !impl.observers.empty()) {
      impl.record.warnings.push_back(
          "there was one calibration sample, whose ranges others may exceed: give some hundred");
    }
    impl.Equalize();
    impl.SettleConcats();
    impl.chooser = impl.MakeChooser();
    impl.started = true;
  }
  if (impl.chooser) {
    FinishProgress progress = impl.chooser->Step();
    if (progress.finished) impl.chooser.reset();
    progress.finished = false;
    return progress;
  }
  if (impl.next_node < impl.graph.nodes().size()) {
    FinishProgress progress = impl.QuantizeNext();
    progress.finished = progress.finished && impl.learning.empty() && !analyze;
    return progress;
  }
  if (impl.learned >= impl.learning.size()) {
    return analyze ? impl.Analyze() : FinishProgress{"round", 1, 1, true};
  }
  const RecoveryRow& row = *impl.learning[impl.learned];
  if (!impl.job) {
    impl.before_job = {impl.record.configs, impl.record.operators, impl.biases};
    impl.job = row.make({impl.graph, impl.record, impl.options, impl.kept, impl.biases});
  }
  FinishProgress progress = impl.job->Step();
  progress.method = row.name;
  if (!progress.finished) return progress;
  impl.EndJob(row);
  progress.finished = ++impl.learned == impl.learning.size() && !analyze;
  return progress;
}

/// Layers and blocks that improve one by one may still add up to worse outputs.
void Quantizer::Impl::EndJob(const RecoveryRow& row) {
  SnrMeter after = job->changed() ? OutputSnr() : before;
  std::string detail = job->detail();
  if (job->idle()) WarnOfIdle(row.name);
  job.reset();
  if (after.ScoreDecibels() < before.ScoreDecibels()) {
    detail +=
        StrCat("; undone: the outputs fell to ", std::round(10 * after.Decibels()) / 10, " dB");
    record.configs = std::move(before_job.configs);
    record.operators = std::move(before_job.operators);
    biases = std::move(before_job.biases);
    after = before;
  }
  record.recovery.push_back({row.name, before.Decibels(), after.Decibels(), std::move(detail)});
  before = after;
  before_job = {};
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
  impl_->finished = true;
  impl_->Bake();
  SettleBodies(impl_->graph, impl_->options, impl_->record);
  NoteUnheededOptions(impl_->graph, impl_->options, impl_->record);
  QuantizedModel model{std::move(impl_->graph), std::move(impl_->record)};
  impl_->observers.clear();
  impl_->moments_of.clear();
  impl_->moments.clear();
  impl_->kept.clear();
  return model;
}

}  // namespace requant
