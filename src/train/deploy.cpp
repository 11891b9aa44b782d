#include "train/deploy.h"

#include <algorithm>

#include "quant/assign/assign.h"
#include "quant/grid/affine.h"
#include "quant/grid/simple_multipliers.h"
#include "quant/grid/simple_sums.h"
#include "quant/weights/weights.h"

namespace requant {
namespace {

Tensor ToTensor(const std::vector<float>& values, const Shape& shape) {
  return Tensor::FromVector<float>(values, shape);
}

void StoreFloats(const TrainedLayer& layer, Node& node, OperatorQuantization& op, Graph& graph) {
  const Value& old = *node.inputs[1];
  graph.SetInput(&node, 1,
                 graph.AddConstant(old.name, ToTensor(layer.weights, old.constant.shape())));
  const int slot = BiasSlot(node, op.rule);
  if (slot < 0 || layer.bias.empty()) return;
  const auto at = static_cast<size_t>(slot);
  const Value* bias = node.input(at);
  const auto rows = static_cast<int64_t>(layer.bias.size());
  Value* made =
      graph.AddConstant(bias ? bias->name : node.name + "_bias", ToTensor(layer.bias, {rows}));
  if (node.inputs.size() <= at) node.inputs.resize(at + 1, nullptr);
  graph.SetInput(&node, at, made);
  if (op.inputs.size() <= at) op.inputs.resize(at + 1, -1);  // slots of a layer that stayed float
}

/// Stores the layer's integers for the scales of the record.
void StoreIntegers(const TrainedLayer& layer, const Node& node, const OperatorQuantization& op,
                   QuantizationRecord& record) {
  const auto config_of = [&](int slot) -> TensorQuantizationConfig& {
    return record.configs[static_cast<size_t>(op.inputs[static_cast<size_t>(slot)])];
  };
  TensorQuantizationConfig& weights = config_of(WeightSlot(node, op.rule));
  if (!IsQuantizing(weights.state)) return;
  const TensorQuantizationConfig& input = record.Root(op.inputs[0]);
  const bool plain_input = !input.exotic_activation() && !input.scale.empty();
  const std::vector<double> bias(layer.bias.begin(), layer.bias.end());
  if (!op.simulated && plain_input && weights.observer != "given") {
    const auto input_scale = static_cast<double>(input.scale[0]);
    const TensorQuantizationConfig* output =
        op.float_output ? nullptr : &record.Root(op.outputs[0]);
    RaiseScales(
        ViewWeights(node, op.rule), input_scale,
        output && !output->wide() && !input.wide() ? static_cast<double>(output->scale[0]) : 0,
        bias, weights);
    if (output) SimplifyMultipliers(input_scale, *output, weights);
  }
  weights.baked = QuantizeParameter(node.inputs[1]->constant, weights);
  const int slot = BiasSlot(node, op.rule);
  if (slot < 0) return;
  TensorQuantizationConfig& own = config_of(slot);
  own.state = QuantizationState::kPassiveInit;  // passive scales are computed again
  BakeBias(bias, plain_input ? input.scale : std::vector<float>(), weights, own);
}

}  // namespace

void Deploy(const std::map<std::string, TrainedLayer>& layers, QuantizedModel& model) {
  QuantizationRecord& record = model.record;
  record.analysis.clear();  // the analysis describes the model before training
  SimplifySums(model.float_graph, record, [&record](int index) {
    return record.configs[static_cast<size_t>(index)].observer == "given";
  });
  for (const auto& node : model.float_graph.nodes()) {
    const auto found = layers.find(node->name);
    if (found == layers.end()) continue;
    OperatorQuantization& op = record.operators.at(node->name);
    StoreFloats(found->second, *node, op, model.float_graph);
    if (op.quantized) StoreIntegers(found->second, *node, op, record);
  }
  // Update the passive scales, which follow scales that have changed.
  for (const auto& node : model.float_graph.nodes()) {
    const OperatorQuantization* op = record.Find(node->name);
    if (op == nullptr || !op->quantized || WeightSlot(*node, op->rule) >= 0) continue;
    for (const int index : op->inputs) {
      if (index < 0) continue;
      QuantizationState& state = record.configs[static_cast<size_t>(index)].state;
      if (state == QuantizationState::kPassiveBaked || state == QuantizationState::kPassive) {
        state = QuantizationState::kPassiveInit;
      }
    }
  }
  BakePassive(model.float_graph, record);
  model.float_graph.RemoveUnusedValues();
}

}  // namespace requant
