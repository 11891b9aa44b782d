#include "quant/sim/simulator.h"

#include <algorithm>
#include <cmath>

#include "quant/assign/assign.h"
#include "quant/grid/affine.h"
#include "quant/sim/backward.h"
#include "quant/sim/elements.h"
#include "quant/sim/fast_ops.h"
#include "quant/weights/weights.h"

namespace requant {

Simulator::Simulator(const Graph& graph, const QuantizationRecord& record,
                     const std::shared_ptr<BatchRunner>& runner)
    : graph_(graph), record_(record) {
  const auto shared = runner ? runner : std::make_shared<BatchRunner>();
  std::map<const Value*, size_t> last;
  for (const auto& node : graph.nodes()) {
    for (const Value* input : node->inputs) {
      if (input && !input->is_constant()) last[input] = nodes_.size();
    }
    for (const Value* output : node->outputs) {
      if (output && output->consumers.empty()) last[output] = nodes_.size();
    }
    const OperatorQuantization* op = record.Find(node->name);
    if (op != nullptr && HasWeightMatrix(*node, op->rule)) {
      SimLayer& layer = layers_[node.get()];
      layer.quantized = op->quantized;
      layer.math = std::make_unique<LayerMath>(*node, op->rule, shared);
      const int bias = BiasSlot(*node, op->rule);
      const std::vector<double> values =
          bias < 0 ? std::vector<double>()
                   : ReadBias(node->constant(static_cast<size_t>(bias)), layer.math->view().rows);
      layer.float_bias.assign(values.begin(), values.end());
    }
    nodes_.push_back(node.get());
  }
  dead_after_.resize(nodes_.size());
  for (const auto& [value, node] : last) {
    if (!graph.IsOutput(value)) dead_after_[node].push_back(value);
  }
}

SimLayer* Simulator::Layer(const Node* node) {
  const auto found = layers_.find(node);
  return found == layers_.end() || !found->second.quantized ? nullptr : &found->second;
}

LayerMath* Simulator::Math(const Node* node) const {
  const auto found = layers_.find(node);
  return found == layers_.end() ? nullptr : found->second.math.get();
}

bool Simulator::PassesGradients(const Node& node) const {
  return Math(&node) != nullptr || HasGradient(node);
}

void Simulator::SetWeights(const Node* node, const std::vector<double>* bias) {
  SimLayer& layer = layers_.at(node);
  const OperatorQuantization& op = record_.operators.at(node->name);
  const TensorQuantizationConfig& config =
      record_
          .configs[static_cast<size_t>(op.inputs[static_cast<size_t>(WeightSlot(*node, op.rule))])];
  const Tensor values = DequantizeParameter(config.baked, config);
  layer.weights.assign(values.data<float>(), values.data<float>() + values.count());
  layer.bias = bias ? std::vector<float>(bias->begin(), bias->end()) : layer.float_bias;
}

Values Simulator::Start(const TensorMap& feeds) const {
  Values values;
  for (const Value* input : graph_.inputs()) {
    const auto feed = feeds.find(input->name);
    if (feed != feeds.end()) values[input] = feed->second;
  }
  return values;
}

const TensorQuantizationConfig* Simulator::ReadConfig(const Node& node, size_t slot) const {
  const OperatorQuantization* op = record_.Find(node.name);
  const Value* value = node.inputs[slot];
  if (op == nullptr || !op->quantized || slot >= op->inputs.size() || op->inputs[slot] < 0 ||
      value == nullptr || value->is_constant()) {
    return nullptr;
  }
  const int index = op->inputs[slot];
  if (!IsQuantizing(record_.configs[static_cast<size_t>(index)].state)) return nullptr;
  // A value inside of a table's region or before a clamp is never on a grid of its own.
  if (IsInside(record_, value)) return nullptr;
  const TensorQuantizationConfig& root = record_.Root(index);
  if (root.scale.empty()) return nullptr;
  return &root;
}

const TensorQuantizationConfig* Simulator::WriteConfig(const Node& node, size_t slot) const {
  const OperatorQuantization* op = record_.Find(node.name);
  if (op == nullptr || !op->quantized || slot >= op->outputs.size() || op->outputs[slot] < 0 ||
      !IsMaterialized(record_, node.outputs[slot])) {
    return nullptr;
  }
  if (!IsQuantizing(record_.configs[static_cast<size_t>(op->outputs[slot])].state)) return nullptr;
  const TensorQuantizationConfig& root = record_.Root(op->outputs[slot]);
  return root.scale.empty() ? nullptr : &root;
}

const TensorQuantizationConfig* Simulator::ReadGrid(const Node& node, size_t slot) const {
  const TensorQuantizationConfig* config = ReadConfig(node, slot);
  const Node* producer = config ? node.inputs[slot]->producer : nullptr;
  if (producer == nullptr) return config;
  for (size_t i = 0; i < producer->outputs.size(); ++i) {
    if (producer->outputs[i] == node.inputs[slot] && WriteConfig(*producer, i) == config) {
      return nullptr;
    }
  }
  return config;
}

Tensor Simulator::ConstantOnGrid(const Node& node, size_t slot) const {
  const OperatorQuantization* op = record_.Find(node.name);
  if (op == nullptr || !op->quantized || slot >= op->inputs.size() || op->inputs[slot] < 0 ||
      (op->rule != QuantRule::kAdd && op->rule != QuantRule::kMul) || !op->table.empty()) {
    return {};
  }
  const auto& own = record_.configs[static_cast<size_t>(op->inputs[slot])];
  if (own.baked.empty() || !IsQuantizing(own.state)) return {};
  return DequantizeParameter(own.baked, own);
}

bool Simulator::WeightsAreOnGrid(const Node& node) const {
  const OperatorQuantization& op = record_.operators.at(node.name);
  const auto slot = static_cast<size_t>(WeightSlot(node, op.rule));
  return IsQuantizing(record_.configs[static_cast<size_t>(op.inputs[slot])].state);
}

std::vector<Tensor> Simulator::Evaluate(const Node& node, const std::vector<const Tensor*>& inputs,
                                        const float* weights, const std::vector<float>* bias) {
  const auto found = layers_.find(&node);
  std::vector<Tensor> out;
  if (found != layers_.end()) {
    SimLayer& layer = found->second;
    out.push_back(layer.math->Forward(*inputs[0],
                                      weights ? weights : node.inputs[1]->constant.data<float>(),
                                      bias ? *bias : layer.float_bias));
    return out;
  }
  if (std::optional<Tensor> made = EvaluateFast(node, inputs)) {
    out.push_back(std::move(*made));
    return out;
  }
  return EvaluateNode(graph_, node, inputs, RequantizeMode::kUpward);
}

std::vector<Tensor> Simulator::EvaluateLayer(const Node& node, std::span<const Tensor> x) {
  SimLayer& layer = layers_.at(&node);
  return layer.math->Forward(x, node.inputs[1]->constant.data<float>(), layer.float_bias);
}

void Simulator::Run(Values& values, SimMode mode, size_t begin, size_t end, bool forget) {
  for (size_t at = begin; at < end; ++at) {
    const Node& node = *nodes_[at];
    const bool on_grid = mode == SimMode::kQuantized;
    std::vector<Tensor> made;
    made.reserve(node.inputs.size());
    std::vector<const Tensor*> inputs;
    for (size_t slot = 0; slot < node.inputs.size(); ++slot) {
      const Value* value = node.inputs[slot];
      if (value == nullptr || value->is_constant()) {
        const Tensor* constant = value ? &value->constant : nullptr;
        Tensor moved = on_grid && value ? ConstantOnGrid(node, slot) : Tensor();
        if (!moved.empty()) constant = &made.emplace_back(std::move(moved));
        inputs.push_back(constant);
        continue;
      }
      const Tensor& tensor = values.at(value);
      const TensorQuantizationConfig* grid = on_grid ? ReadGrid(node, slot) : nullptr;
      inputs.push_back(grid && tensor.dtype() == DType::kFloat32
                           ? &made.emplace_back(FakeQuantizeTensor(tensor, *grid))
                           : &tensor);
    }
    SimLayer* layer = on_grid ? Layer(&node) : nullptr;
    const bool ready = layer && !layer->weights.empty() && WeightsAreOnGrid(node);
    std::vector<Tensor> outputs = Evaluate(node, inputs, ready ? layer->weights.data() : nullptr,
                                           ready ? &layer->bias : nullptr);
    for (size_t slot = 0; slot < node.outputs.size(); ++slot) {
      const Value* value = node.outputs[slot];
      if (value == nullptr) continue;
      const TensorQuantizationConfig* config = on_grid ? WriteConfig(node, slot) : nullptr;
      values[value] = config && outputs[slot].dtype() == DType::kFloat32
                          ? FakeQuantizeTensor(outputs[slot], *config)
                          : std::move(outputs[slot]);
    }
    if (forget) Forget(values, at, at + 1);
  }
}

void Simulator::Forget(Values& values, size_t begin, size_t end) const {
  for (size_t at = begin; at < end; ++at) {
    for (const Value* value : dead_after_[at]) values.erase(value);
  }
}

std::vector<Tensor> Simulator::Outputs(const TensorMap& feeds, SimMode mode) {
  Values values = Start(feeds);
  Run(values, mode, 0, nodes_.size());
  return Outputs(values);
}

std::vector<Tensor> Simulator::Outputs(const Values& values) const {
  std::vector<Tensor> out;
  for (const Value* output : graph_.outputs()) {
    const auto found = values.find(output);
    out.push_back(found == values.end() ? output->constant : found->second);
  }
  return out;
}

void SnrMeter::Add(const Tensor& reference, const Tensor& candidate) {
  if (reference.dtype() != DType::kFloat32 || reference.count() != candidate.count()) return;
  const bool scores = reference.rank() == 2 && reference.dim(1) > 1;
  const int64_t row = scores ? reference.dim(1) : std::max<int64_t>(1, reference.count());
  const float* a = reference.data<float>();
  const float* b = candidate.data<float>();
  for (int64_t begin = 0; begin < reference.count(); begin += row) {
    double signal = 0;
    double noise = 0;
    double mean = 0;
    double mean_error = 0;
    for (int64_t i = begin; i < begin + row; ++i) {
      const auto r = static_cast<double>(a[i]);
      const double error = r - static_cast<double>(b[i]);
      signal += r * r;
      noise += error * error;
      mean += r;
      mean_error += error;
    }
    signal_ += signal;
    noise_ += noise;
    score_signal_ += signal - (scores ? mean * mean / static_cast<double>(row) : 0);
    score_noise_ += noise - (scores ? mean_error * mean_error / static_cast<double>(row) : 0);
    scores_ += static_cast<double>(row - (scores ? 1 : 0));
  }
}

double SnrMeter::Decibels() const {
  return 10 * std::log10((signal_ + 1e-300) / (noise_ + 1e-300));
}

double SnrMeter::ScoreDecibels() const {
  return 10 * std::log10((score_signal_ + 1e-300) / (std::max(0.0, score_noise_) + 1e-300));
}

double SnrMeter::ScoreVariance() const {
  return scores_ > 0 ? std::max(0.0, score_noise_) / scores_ : 0;
}

}  // namespace requant
