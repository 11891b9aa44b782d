#include "train/network.h"

#include <algorithm>
#include <cmath>

#include "quant/assign/assign.h"
#include "quant/graph/soi.h"
#include "quant/graph/statistics.h"
#include "quant/grid/affine.h"
#include "quant/sim/elements.h"
#include "quant/sim/gradients.h"
#include "train/one_bit_range.h"

namespace requant {
namespace {

bool IsFloat(const Tensor& tensor) { return tensor.dtype() == DType::kFloat32; }

/// Whether gradients are known for the grid: evenly spaced codes with a single scale.
bool IsPlain(const TensorQuantizationConfig& config) {
  return config.scale.size() == 1 && !config.exponential();
}

}  // namespace

TrainNetwork::TrainNetwork(const Graph& graph, QuantizationRecord& record,
                           const TrainOptions& options, const std::vector<const Value*>& ends)
    : record_(record),
      options_(options),
      runner_(std::make_shared<BatchRunner>(options.runner)),
      simulator_(graph, record, runner_),
      gradients_of_(graph) {
  // Constants of a decomposed normalization are no weights.
  const std::set<const Node*> statistics = FindStatistics(graph, ShapeOrIndexValues(graph));
  for (const Node* node : simulator_.nodes()) {
    if (simulator_.Math(node) == nullptr) continue;
    simulator_.Math(node)->FilterMinimally();
    const OperatorQuantization& op = record.operators.at(node->name);
    if (!op.quantized && statistics.contains(node)) continue;
    const auto config_of = [&](int slot) -> TensorQuantizationConfig* {
      const bool has = slot >= 0 && static_cast<size_t>(slot) < op.inputs.size();
      const int index = has ? op.inputs[static_cast<size_t>(slot)] : -1;
      return index < 0 ? nullptr : &record.configs[static_cast<size_t>(index)];
    };
    const bool on_grid = op.quantized && simulator_.WeightsAreOnGrid(*node);
    layers_[node] = std::make_unique<TrainLayer>(
        *node, op, on_grid ? config_of(WeightSlot(*node, op.rule)) : nullptr,
        config_of(BiasSlot(*node, op.rule)), options, runner_);
  }
  FindLearners(ends);
  PlanScales();
}

TensorQuantizationConfig& TrainNetwork::Own(const TensorQuantizationConfig& config) {
  return record_.configs[static_cast<size_t>(&config - record_.configs.data())];
}

/// Finds the values that depend on layers, and the nodes that the gradients of `ends` reach.
void TrainNetwork::FindLearners(const std::vector<const Value*>& ends) {
  for (const Node* node : simulator_.nodes()) {
    const bool learns = layers_.contains(node) ||
                        std::any_of(node->inputs.begin(), node->inputs.end(),
                                    [&](const Value* value) { return learning_.contains(value); });
    for (const Value* output : node->outputs) {
      if (learns && output) learning_.insert(output);
    }
  }
  std::set<const Value*> wanted(ends.begin(), ends.end());
  std::map<const Value*, std::string> stopped;  // by value: the operator that stops the gradient
  for (size_t at = size(); at-- > 0;) {
    const Node& node = *simulator_.nodes()[at];
    bool here = false;
    std::string stop;
    for (const Value* output : node.outputs) {
      here = here || wanted.contains(output);
      if (stop.empty() && stopped.contains(output)) stop = stopped.at(output);
    }
    if (here) reached_.insert(&node);
    if (!here && layers_.contains(&node)) unreached_[node.name] = stop;
    const bool passes = simulator_.PassesGradients(node);
    if (here && !passes) stop = node.name;
    for (const Value* input : node.inputs) {
      if (!learning_.contains(input)) continue;
      if (here && passes) {
        wanted.insert(input);
      } else {
        stopped.try_emplace(input, stop);
      }
    }
  }
  std::erase_if(layers_, [&](const auto& entry) { return !reached_.contains(entry.first); });
}

void TrainNetwork::PlanScales() {
  if (options_.scales == TrainScales::kKeep) return;
  const auto plan = [&](const TensorQuantizationConfig* config, bool written) {
    if (config == nullptr || config->observer == "given") return;
    if (options_.scales == TrainScales::kObserve) {
      if (!config->per_channel() && !observers_.contains(config)) {
        TensorQuantizationConfig moving = *config;
        moving.observer = config->observer == "minmax" ? "minmax" : "moving_average";
        observers_[config] = MakeObserver(moving);
      }
    } else if (written && IsPlain(*config) && (config->policy & kPowerOf2) == 0) {
      scales_.try_emplace(config, *config);
    }
  };
  for (const Node* node : simulator_.nodes()) {
    for (size_t slot = 0; slot < node->inputs.size(); ++slot) {
      const Value* value = node->inputs[slot];
      if (value && !value->is_constant()) {
        plan(simulator_.ReadGrid(*node, slot), reached_.contains(value->producer));
      }
    }
    for (size_t slot = 0; slot < node->outputs.size(); ++slot) {
      if (node->outputs[slot]) plan(simulator_.WriteConfig(*node, slot), reached_.contains(node));
    }
  }
}

std::vector<Tensor> TrainNetwork::FloatOutputs(const Node& layer, std::vector<Values>& samples) {
  const Value* input = layer.inputs[0];
  std::vector<Tensor> x;
  for (const Values& values : samples) {
    x.push_back(input->is_constant() ? input->constant : values.at(input));
  }
  std::vector<Tensor> out = simulator_.EvaluateLayer(layer, x);
  for (size_t i = 0; i < out.size(); ++i) samples[i][layer.outputs[0]] = out[i];
  return out;
}

void TrainNetwork::Begin(std::vector<Values> samples) {
  values_ = std::move(samples);
  entries_.assign(size(), {});
  gradients_.assign(values_.size(), {});
  for (auto& [node, layer] : layers_) layer->Begin();
}

std::vector<Tensor> TrainNetwork::OnGrid(const TensorQuantizationConfig& config,
                                         std::vector<Tensor> x) {
  const auto observed = observers_.find(&config);
  if (observed != observers_.end() && !frozen_) {
    for (const Tensor& tensor : x) observed->second->Observe(0, tensor.values<float>());
    observed->second->EndSample(0);
    const Range range =
        config.bits == 1 ? FollowOneBit(config, x, one_bit_[&config]) : observed->second->Get();
    TensorQuantizationConfig& own = Own(config);
    const Affine affine = AffineOfActivation(range.min, range.max, config);
    affine.PutInto(own);
    own.range_min = range.min;
    own.range_max = range.max;
  }
  return FakeQuantizeBatch(runner_.get(), x, config);
}

/// Collects the operands of the operator, by sample and slot.
void TrainNetwork::Read(size_t at, Entry& entry) {
  const Node& node = *simulator_.nodes()[at];
  entry.inputs.assign(values_.size(), std::vector<Tensor>(node.inputs.size()));
  for (size_t slot = 0; slot < node.inputs.size(); ++slot) {
    const Value* value = node.inputs[slot];
    if (value == nullptr) continue;
    if (value->is_constant()) {
      Tensor constant = simulator_.ConstantOnGrid(node, slot);
      if (constant.empty()) constant = value->constant;
      for (auto& inputs : entry.inputs) inputs[slot] = constant;
      continue;
    }
    std::vector<Tensor> read;
    for (const Values& values : values_) read.push_back(values.at(value));
    const TensorQuantizationConfig* grid = simulator_.ReadGrid(node, slot);
    if (grid && IsFloat(read[0])) read = OnGrid(*grid, std::move(read));
    for (size_t i = 0; i < read.size(); ++i) entry.inputs[i][slot] = std::move(read[i]);
  }
}

void TrainNetwork::Forward(size_t at) {
  const Node& node = *simulator_.nodes()[at];
  Entry& entry = entries_[at];
  Read(at, entry);
  const auto layer = layers_.find(&node);
  if (layer != layers_.end()) {
    std::vector<Tensor> x;
    for (const auto& inputs : entry.inputs) x.push_back(inputs[0]);
    for (Tensor& made : layer->second->Forward(x)) entry.raw.push_back({std::move(made)});
  } else {
    std::vector<std::vector<const Tensor*>> read;
    for (const auto& inputs : entry.inputs) {
      std::vector<const Tensor*>& of_sample = read.emplace_back();
      for (size_t slot = 0; slot < inputs.size(); ++slot) {
        of_sample.push_back(node.inputs[slot] ? &inputs[slot] : nullptr);
      }
    }
    if (auto outputs = EvaluateElements(runner_.get(), node, read)) {
      for (Tensor& made : *outputs) entry.raw.push_back({std::move(made)});
    } else {
      for (const auto& of_sample : read) {
        entry.raw.push_back(simulator_.Evaluate(node, of_sample, nullptr, nullptr));
      }
    }
  }
  for (size_t slot = 0; slot < node.outputs.size(); ++slot) {
    const Value* value = node.outputs[slot];
    if (value == nullptr) continue;
    std::vector<Tensor> made;
    for (const auto& raw : entry.raw) made.push_back(raw[slot]);
    const TensorQuantizationConfig* grid = simulator_.WriteConfig(node, slot);
    if (grid && IsFloat(made[0])) made = OnGrid(*grid, std::move(made));
    for (size_t i = 0; i < made.size(); ++i) values_[i][value] = std::move(made[i]);
  }
}

/// Tensors may be shared among values, so that the sums are new ones.
void TrainNetwork::AddGradients(const Value* value, std::vector<Tensor> gradients) {
  ElementOperands sums;
  std::vector<Tensor*> targets;
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (gradients[i].empty()) continue;
    const auto [found, added] = gradients_[i].try_emplace(value, gradients[i]);
    if (added) continue;
    sums.a.push_back(&found->second);
    sums.b.push_back(&gradients[i]);
    targets.push_back(&found->second);
  }
  std::vector<Tensor> made = MapElements(runner_.get(), {gradient::ElementFunction::kAdd}, sums);
  for (size_t i = 0; i < made.size(); ++i) *targets[i] = std::move(made[i]);
}

/// The gradients of the grid of a value, by sample; those without a gradient stay empty.
std::vector<Tensor> TrainNetwork::GridBackward(const TensorQuantizationConfig& config,
                                               const std::vector<const Tensor*>& x,
                                               std::vector<Tensor> dy) {
  if (!IsPlain(config)) return dy;  // the gradient passes straight through
  const auto learns = scales_.find(&config);
  double step = 0;
  double* learned = learns == scales_.end() ? nullptr : &step;
  dy = GridGradients(runner_.get(), ActivationGrid(config), x, std::move(dy), learned);
  if (learned) learns->second.gradient[0] += static_cast<float>(step);
  return dy;
}

void TrainNetwork::Backward(size_t at) {
  const Node& node = *simulator_.nodes()[at];
  std::vector<std::vector<Tensor>> dy(values_.size(), std::vector<Tensor>(node.outputs.size()));
  bool any = false;
  for (size_t slot = 0; slot < node.outputs.size(); ++slot) {
    const Value* value = node.outputs[slot];
    if (value == nullptr) continue;
    std::vector<Tensor> gradients(values_.size());
    std::vector<const Tensor*> raw;
    bool here = false;
    for (size_t i = 0; i < values_.size(); ++i) {
      raw.push_back(&entries_[at].raw[i][slot]);
      const auto found = gradients_[i].find(value);
      if (found == gradients_[i].end()) continue;
      gradients[i] = std::move(found->second);
      gradients_[i].erase(found);
      here = true;
    }
    if (!here) continue;
    any = true;
    if (const TensorQuantizationConfig* grid = simulator_.WriteConfig(node, slot)) {
      gradients = GridBackward(*grid, raw, std::move(gradients));
    }
    for (size_t i = 0; i < values_.size(); ++i) dy[i][slot] = std::move(gradients[i]);
  }
  if (any && simulator_.PassesGradients(node)) BackwardThrough(at, std::move(dy));
  entries_[at] = {};
  for (Values& values : values_) {
    for (const Value* output : node.outputs) values.erase(output);
  }
}

void TrainNetwork::BackwardThrough(size_t at, std::vector<std::vector<Tensor>> dy) {
  const Node& node = *simulator_.nodes()[at];
  const Entry& entry = entries_[at];
  std::vector<bool> wanted;
  for (const Value* value : node.inputs) {
    wanted.push_back(value && !value->is_constant() && learning_.contains(value) &&
                     value->type.dtype == DType::kFloat32);
  }
  const auto layer = layers_.find(&node);
  std::vector<std::vector<Tensor>> made(values_.size());
  if (layer != layers_.end()) {
    std::vector<Tensor> x, gradients;
    for (size_t i = 0; i < values_.size(); ++i) {
      x.push_back(entry.inputs[i][0]);
      gradients.push_back(std::move(dy[i][0]));
    }
    std::vector<Tensor> dx = layer->second->Backward(x, gradients, wanted[0]);
    for (size_t i = 0; i < dx.size(); ++i) {
      made[i].resize(node.inputs.size());
      made[i][0] = std::move(dx[i]);
    }
  } else if (LayerMath* math = simulator_.Math(&node)) {  // a layer that does not learn
    for (size_t i = 0; i < values_.size() && wanted[0]; ++i) {
      made[i].resize(node.inputs.size());
      math->Backward(entry.inputs[i][0], node.constant(1)->data<float>(), dy[i][0], nullptr,
                     nullptr, made[i].data());
    }
  } else if (auto gradients =
                 ElementGradients(runner_.get(), node, entry.inputs, entry.raw, dy, wanted)) {
    made = std::move(*gradients);
  } else {
    for (size_t i = 0; i < values_.size(); ++i) {
      made[i].resize(node.inputs.size());
      for (size_t output = 0; output < dy[i].size(); ++output) {
        if (dy[i][output].empty()) continue;
        std::vector<Tensor> part = gradients_of_.Backward(node, entry.inputs[i], entry.raw[i],
                                                          output, dy[i][output], wanted);
        for (size_t slot = 0; slot < part.size(); ++slot) {
          if (part[slot].empty()) continue;
          if (made[i][slot].empty()) {
            made[i][slot] = std::move(part[slot]);
          } else {
            requant::AddGradient(part[slot].data<float>(), 1, part[slot].count(),
                                 made[i][slot].data<float>());
          }
        }
      }
    }
  }
  for (size_t slot = 0; slot < node.inputs.size(); ++slot) {
    if (!wanted[slot]) continue;
    const Value* value = node.inputs[slot];
    const TensorQuantizationConfig* grid = simulator_.ReadGrid(node, slot);
    std::vector<Tensor> gradients(values_.size());
    std::vector<const Tensor*> read;
    for (size_t i = 0; i < values_.size(); ++i) {
      read.push_back(&values_[i].at(value));
      if (!made[i].empty()) gradients[i] = std::move(made[i][slot]);
    }
    if (grid) gradients = GridBackward(*grid, read, std::move(gradients));
    AddGradients(value, std::move(gradients));
  }
}

void TrainNetwork::Drop() {
  values_.clear();
  entries_.assign(size(), {});
  gradients_.clear();
}

void TrainNetwork::Update(double rate) {
  for (auto& [node, layer] : layers_) layer->Update(rate);
  for (auto& [config, learner] : scales_) {
    learner.Update(rate * options_.scale_rate);
    Own(*config).scale = learner.scale;
  }
}

void TrainNetwork::SetMeasuring(bool measuring) {
  for (auto& [node, layer] : layers_) layer->SetMeasuring(measuring);
}

void TrainNetwork::Freeze() {
  frozen_ = true;
  for (auto& [node, layer] : layers_) layer->Fold();
}

void TrainNetwork::Fields(StateBytes& state) {
  state.Flag(frozen_);
  for (const Node* node : simulator_.nodes()) {
    const auto layer = layers_.find(node);
    if (layer != layers_.end()) layer->second->Fields(state);
  }
  // The order of keys is that of the record's configs, which are one array.
  for (auto& [config, learner] : scales_) learner.Fields(state);
  for (auto& [config, observer] : observers_) {
    observer->Fields(state, 0);
    state.Value(one_bit_[config]);
  }
  for (TensorQuantizationConfig& config : record_.configs) {
    state.SameList(config.scale);
    state.SameList(config.offset);
    state.Value(config.threshold);
    state.Value(config.range_min);
    state.Value(config.range_max);
  }
}

void TrainNetwork::StoreRanges() {
  for (const auto& [config, learner] : scales_) {
    TensorQuantizationConfig& own = Own(*config);
    const auto scale = static_cast<double>(own.scale[0]);
    const int32_t middle = own.offset[0] - own.threshold;
    own.range_min = static_cast<double>(own.quant_min - middle) * scale;
    own.range_max = static_cast<double>(own.quant_max - middle) * scale;
  }
}

}  // namespace requant
