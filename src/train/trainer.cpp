#include "train/trainer.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/str_cat.h"
#include "quant/assign/assign.h"
#include "quant/grid/weight_matrix.h"
#include "train/deploy.h"
#include "train/loss.h"
#include "train/network.h"

namespace requant {
namespace {

void CheckNumber(const char* name, double value, bool good, const char* relation, double limit) {
  if (value >= 0 && good) return;
  Fail(ErrorCode::kInvalidArgument, StrCat(name, " is ", value),
       {.hint = StrCat("give one that is >= 0 and ", relation, " ", limit)});
}

void CheckOptions(const TrainOptions& options) {
#define REQUANT_TRAIN_NUMBER(field, name, standard, relation, limit) \
  CheckNumber(name, options.field, options.field relation limit, #relation, limit);
#include "train/options.inc"
}

/// Throws with the reason why one of the layers cannot learn: no gradient reaches it, or its
/// weights are no matrix.
[[noreturn]] void FailToLearn(const QuantizedModel& model,
                              const std::map<std::string, std::string>& unreached) {
  std::string what = "the model has no layer with weights that can learn", name;
  if (!unreached.empty()) {
    const auto& [layer, stop] = *unreached.begin();
    name = layer;
    what += stop.empty() ? StrCat(": no output that is compared depends on '", layer, "'")
                         : StrCat(": no gradient goes through '", stop, "' to '", layer, "'");
  }
  for (const auto& node : model.float_graph.nodes()) {
    const OperatorQuantization* op = model.record.Find(node->name);
    const char* why =
        op && WeightSlot(*node, op->rule) >= 0 ? WhyNoWeightMatrix(*node, op->rule) : nullptr;
    if (why == nullptr || !name.empty()) continue;
    name = node->name;
    what += StrCat(": of '", name, "', ", why);
  }
  Fail(ErrorCode::kUnsupported, std::move(what),
       {.node = name, .hint = "layers learn that are a convolution or a product with a matrix"});
}

/// Throws for weights or biases that an update has made infinite or NaN: rounding would hide them.
void CheckLayers(const TrainNetwork& network, int64_t batches) {
  const auto finite = [](float x) { return std::isfinite(x); };
  for (const auto& [node, layer] : network.layers()) {
    if (std::all_of(layer->weights().begin(), layer->weights().end(), finite) &&
        std::all_of(layer->bias().begin(), layer->bias().end(), finite)) {
      continue;
    }
    Fail(ErrorCode::kInvalidArgument,
         StrCat("the weights of '", node->name, "' are infinite or NaN after batch ", batches - 1),
         {.node = node->name, .hint = "take a smaller learning rate"});
  }
}

Tensor Copy(const std::string& name, const Tensor& tensor) {
  if (tensor.dtype() == DType::kFloat32) {
    for (const float value : tensor.values<float>()) {
      if (std::isfinite(value)) continue;
      Fail(ErrorCode::kInvalidArgument, StrCat("the sample for '", name, "' holds NaN or infinity"),
           {.value = name});
    }
  }
  return tensor.Clone();
}

}  // namespace

struct Trainer::Impl {
  QuantizedModel model;
  TrainOptions options;
  std::vector<const Value*> ends;
  std::unique_ptr<TrainNetwork> network;
  std::vector<Values> samples;  // samples of the batch
  std::vector<int64_t> labels;
  std::vector<Values> float_values;
  size_t position = 0;  // position in the 3 * nodes steps of a batch
  bool finished = false, freezing = false;
  int64_t batches = 0;
  int64_t to_measure = 0;  // batches left from which nothing is learned
  TrainProgress result;

  Impl(const QuantizedModel& from, const TrainOptions& with)
      : model{from.float_graph.Clone(), from.record},
        options(with),
        to_measure(with.measured_batches) {}

  void Fields(StateBytes& state);
  bool measuring() const { return to_measure > 0; }
  /// Whether the first batches are still measured, before any learning.
  bool starting() const { return batches < options.measured_batches; }
  void EndBatch(double rate);
  bool NeedsFloat() const;
  void AdvanceFloat(size_t at);
  void StartBackward();
};

Trainer::Trainer(const QuantizedModel& model, const TrainOptions& options) {
  CheckOptions(options);
  impl_ = std::make_unique<Impl>(model, options);
  Impl& impl = *impl_;
  impl.ends = LossEnds(impl.model.float_graph);
  impl.network = std::make_unique<TrainNetwork>(impl.model.float_graph, impl.model.record,
                                                impl.options, impl.ends);
  if (impl.network->layers().empty()) FailToLearn(impl.model, impl.network->unreached());
}

Trainer::~Trainer() = default;
Trainer::Trainer(Trainer&&) noexcept = default;
Trainer& Trainer::operator=(Trainer&&) noexcept = default;

void Trainer::Add(const TensorMap& feeds, int64_t label) {
  Impl& impl = *impl_;
  if (impl.finished || impl.position > 0) {
    Fail(ErrorCode::kInvalidArgument, "samples are added between batches only");
  }
  TensorMap own;
  std::map<std::string, int64_t> symbols;
  for (const Value* input : impl.model.float_graph.inputs()) {
    const auto feed = feeds.find(input->name);
    if (feed == feeds.end()) {
      Fail(ErrorCode::kInvalidArgument, StrCat("the sample lacks the input '", input->name, "'"),
           {.value = input->name});
    }
    CheckFeed(*input, feed->second, symbols);
    own[input->name] = Copy(input->name, feed->second);
  }
  impl.samples.push_back(impl.network->simulator().Start(own));
  impl.labels.push_back(label);
}

/// Whether the float network has to run: its layers are measured first, and it is what a sample
/// without a label learns from. Outputs that are no scores never have labels.
bool Trainer::Impl::NeedsFloat() const {
  const auto& shape = ends[0]->type.shape;
  const bool scores = ends.size() == 1 && shape && shape->size() >= 2 && shape->back().value > 1;
  return starting() || !scores || std::any_of(labels.begin(), labels.end(), [&](int64_t label) {
           return requant::NeedsFloat(options, label);
         });
}

/// Runs the float network, whose outputs are the targets of the quantized one.
void Trainer::Impl::AdvanceFloat(size_t at) {
  if (at == 0) float_values = samples;
  Simulator& simulator = network->simulator();
  const auto layer = network->layers().find(simulator.nodes()[at]);
  if (layer != network->layers().end()) {
    const std::vector<Tensor> outputs = network->FloatOutputs(*layer->first, float_values);
    if (starting()) layer->second->Measure(outputs);
  } else {
    for (Values& values : float_values) {
      simulator.Run(values, SimMode::kFloat, at, at + 1, false);
    }
  }
  for (Values& values : float_values) {
    std::vector<std::pair<const Value*, Tensor>> kept;
    for (const Value* end : ends) {
      const auto found = values.find(end);
      if (found != values.end()) kept.emplace_back(*found);
    }
    simulator.Forget(values, at, at + 1);
    for (auto& [end, tensor] : kept) values[end] = std::move(tensor);
  }
}

void Trainer::Impl::StartBackward() {
  const auto weight = 1 / static_cast<float>(samples.size());
  std::vector<std::vector<Tensor>> gradients(ends.size(), std::vector<Tensor>(samples.size()));
  for (size_t sample = 0; sample < samples.size(); ++sample) {
    for (size_t end = 0; end < ends.size(); ++end) {
      const LossParts parts =
          LossOf(options, network->Get(sample, ends[end]),
                 float_values.empty() ? Tensor() : float_values[sample].at(ends[end]),
                 end == 0 ? labels[sample] : -1, weight, gradients[end][sample]);
      result.loss += parts.loss * static_cast<double>(weight);
      result.correct += parts.correct;
      result.labelled += parts.labelled;
    }
  }
  for (size_t end = 0; end < ends.size(); ++end) {
    network->AddGradients(ends[end], std::move(gradients[end]));
  }
  float_values.clear();
  if (std::isfinite(result.loss)) return;
  Fail(ErrorCode::kInvalidArgument, StrCat("the loss of batch ", batches, " is no number"),
       {.hint = "take a smaller learning rate"});
}

void Trainer::Impl::EndBatch(double rate) {
  ++batches;
  if (!measuring()) {
    network->Update(rate);
    return CheckLayers(*network, batches);
  }
  network->Drop();
  if (--to_measure > 0) return;
  if (freezing) {
    network->Freeze();
  } else {
    network->SetMeasuring(false);
  }
}

TrainProgress Trainer::Advance(double rate) {
  Impl& impl = *impl_;
  if (impl.finished || impl.samples.empty()) {
    Fail(ErrorCode::kInvalidArgument, "there is no batch to learn from");
  }
  const size_t nodes = impl.network->size();
  const size_t total = (impl.measuring() ? 2 : 3) * nodes;
  if (impl.position == 0) {
    impl.result = {};
    if (!impl.NeedsFloat()) impl.position = nodes;
  }
  const size_t at = impl.position++;
  if (at < nodes) {
    impl.AdvanceFloat(at);
  } else if (at < 2 * nodes) {
    if (at == nodes) impl.network->Begin(impl.samples);
    impl.network->Forward(at - nodes);
    if (at + 1 == 2 * nodes) impl.StartBackward();
  } else {
    impl.network->Backward(3 * nodes - 1 - at);
  }
  impl.result.done = static_cast<int64_t>(impl.position);
  impl.result.total = static_cast<int64_t>(total);
  impl.result.finished = impl.position == total;
  if (impl.result.finished) {
    impl.EndBatch(rate);
    Clear();
  }
  return impl.result;
}

void Trainer::Clear() {
  impl_->samples.clear();
  impl_->labels.clear();
  impl_->position = 0;
}

void Trainer::Freeze() {
  Impl& impl = *impl_;
  if (impl.freezing || impl.finished) return;
  impl.freezing = true;
  if (impl.starting()) return;  // EndBatch() freezes when the first batches are measured
  if (impl.options.batch_norm) {
    impl.to_measure = impl.options.measured_batches;
    impl.network->SetMeasuring(true);
  } else {
    impl.network->Freeze();
  }
}

void Trainer::Impl::Fields(StateBytes& state) {
  constexpr uint32_t kKind = 0x31545152;  // "RQT1"
  uint32_t kind = kKind;
  state.Value(kind);
  if (kind != kKind) {
    Fail(ErrorCode::kInvalidArgument, "the bytes are no state of a training of this version",
         {.hint = "give the bytes as they were saved"});
  }
  state.Value(batches);
  state.Value(to_measure);
  state.Flag(freezing);
  state.Value(options.measured_batches);
  network->Fields(state);
}

std::vector<uint8_t> Trainer::State() {
  if (impl_->finished || impl_->position > 0) {
    Fail(ErrorCode::kInvalidArgument, "the state is taken between batches only");
  }
  StateBytes state;
  impl_->Fields(state);
  return state.Take();
}

void Trainer::Restore(std::span<const uint8_t> from) {
  StateBytes state(from);
  impl_->Fields(state);
  if (state.at_end()) return;
  Fail(ErrorCode::kInvalidArgument, "the state is of another model or of other options",
       {.hint = "give the model and the options with which it was saved"});
}

QuantizedModel Trainer::Snapshot() {
  Trainer copy(impl_->model, impl_->options);
  copy.Restore(State());
  return copy.Finish();
}

QuantizedModel Trainer::Finish(std::string_view note) {
  Impl& impl = *impl_;
  if (impl.finished || impl.batches == 0) {
    Fail(ErrorCode::kInvalidArgument,
         impl.finished ? "the training is finished" : "the training has seen no batch");
  }
  impl.finished = true;
  impl.network->Freeze();
  CheckLayers(*impl.network, impl.batches);
  impl.network->StoreRanges();
  for (const auto& [layer, stop] : impl.network->unreached()) {
    impl.model.record.warnings.push_back(
        StrCat("layer '", layer, "' did not learn: ",
               stop.empty() ? std::string("no output that is compared depends on it")
                            : StrCat("no gradient goes through '", stop, "'")));
  }
  std::map<std::string, TrainedLayer> layers;
  for (const auto& [node, layer] : impl.network->layers()) {
    layers[node->name] = {layer->weights(), layer->bias()};
  }
  impl.network.reset();
  Deploy(layers, impl.model);
  impl.model.record.recovery.push_back(
      {"train", 0, 0,
       StrCat(layers.size(), " layers learned on ", impl.batches, " batches", note)});
  return std::move(impl.model);
}

}  // namespace requant
