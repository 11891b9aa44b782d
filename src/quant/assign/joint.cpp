#include "quant/assign/joint.h"

#include <cmath>
#include <set>

namespace requant {
namespace {

TensorQuantizationConfig& At(QuantizationRecord& record, int index) {
  return record.configs[static_cast<size_t>(index)];
}

/// Joins a slot whose values never exist as integers of their own to its parent, which decides for
/// it whatever the options of its operator say.
void Absorb(QuantizationRecord& record, int child, int parent) {
  if (child < 0 || parent < 0) return;
  TensorQuantizationConfig& config = At(record, child);
  const TensorQuantizationConfig& decides = record.Root(parent);
  if (config.state != decides.state) return;
  config.policy = decides.policy;
  config.axis = decides.axis;
  config.bits = decides.bits;
  config.dtype = decides.dtype;
  config.quant_min = decides.quant_min;
  config.quant_max = decides.quant_max;
  config.rounding = decides.rounding;
  config.formula = decides.formula;
  config.small_float = decides.small_float;
  Join(record, child, parent);
}

/// Joins the results of operators that never exist as integers of their own to the result of the
/// activation or of the end of the region.
void JoinAbsorbed(const Graph& graph, QuantizationRecord& record) {
  for (const auto& node : graph.nodes()) {
    const OperatorQuantization* op = record.Find(node->name);
    if (op == nullptr || !op->quantized) continue;
    if (!op->activation.empty()) {
      const OperatorQuantization& activation = record.operators.at(op->activation);
      Absorb(record, op->outputs[0], activation.outputs[0]);
      Absorb(record, activation.inputs[0], activation.outputs[0]);
    }
    const std::set<std::string> members(op->table.begin(), op->table.end());
    for (const std::string& name : op->table) {
      const Node* member = graph.FindNode(name);
      const OperatorQuantization& inner = record.operators.at(name);
      if (name != node->name && inner.absorbed_by != node->name) continue;
      for (size_t slot = 0; slot < inner.inputs.size(); ++slot) {
        const Value* value = member->input(slot);
        if (value && value->producer && members.contains(value->producer->name)) {
          Absorb(record, inner.inputs[slot], op->outputs[0]);
        } else if (value && value->name == op->table_input) {  // a table reads one format
          Absorb(record, inner.inputs[slot], op->table_config);
        }
      }
      if (name != node->name) Absorb(record, inner.outputs[0], op->outputs[0]);
    }
  }
}

void JoinValue(const Value& value, QuantizationRecord& record) {
  int first = OutputConfig(record, &value);
  for (const Node* consumer : value.consumers) {
    const OperatorQuantization* op = record.Find(consumer->name);
    if (op == nullptr || !op->quantized) continue;
    for (size_t slot = 0; slot < op->inputs.size(); ++slot) {  // a node may read a value twice
      const int index = op->inputs[slot];
      if (consumer->input(slot) != &value || index < 0) continue;
      if (At(record, index).state == QuantizationState::kOverlapped) continue;
      if (first < 0) {
        first = index;
      } else {
        Join(record, index, first);
      }
    }
  }
}

/// Whether only `reader`, perhaps through passive operators, sees this value as integers.
bool ServesOnly(const Graph& graph, const QuantizationRecord& record, const Value* value,
                const Node* reader) {
  if (graph.SoleConsumer(value) != reader || value->producer == nullptr) return false;
  const OperatorQuantization* op = record.Find(value->producer->name);
  if (op == nullptr || !op->quantized) return false;
  if (op->rule == QuantRule::kPassive && op->absorbed_by.empty()) {
    return value->producer->outputs.size() == 1 &&
           ServesOnly(graph, record, value->producer->inputs[0], value->producer);
  }
  return true;
}

/// Whether the node is a Pad that may add a number outside of its data's range; the range of what
/// it writes is decisive for both then. Very large numbers are excluded: they mean the least value
/// possible, and the lowest code has the same effect on a MaxPool, while a range that includes them
/// would leave no codes for anything else.
bool PadsWithAnother(const Node& node) {
  constexpr float kLargest = 1e4;
  if (!node.Is(Op::kPad) || node.attributes.String("mode", "constant") != "constant") return false;
  const Tensor* value = node.constant(2);
  if (value == nullptr || value->dtype() != DType::kFloat32 || value->count() != 1) return false;
  const float padding = value->data<float>()[0];
  return padding != 0 && std::fabs(padding) <= kLargest;
}

}  // namespace

int OutputConfig(const QuantizationRecord& record, const Value* value) {
  if (value->producer == nullptr) return -1;
  const OperatorQuantization* op = record.Find(value->producer->name);
  if (op == nullptr || !op->quantized) return -1;
  for (size_t slot = 0; slot < op->outputs.size(); ++slot) {
    if (value->producer->output(slot) == value) return op->outputs[slot];
  }
  return -1;
}

int QuantizationRecord::RootIndex(int index) const {
  while (configs[static_cast<size_t>(index)].dominator >= 0) {
    index = configs[static_cast<size_t>(index)].dominator;
  }
  return index;
}

bool CanJoin(const QuantizationRecord& record, int a, int b) {
  if (a < 0 || b < 0) return false;
  const TensorQuantizationConfig& x = record.Root(a);
  const TensorQuantizationConfig& y = record.Root(b);
  const auto joinable = [](const TensorQuantizationConfig& config) {
    return config.state == QuantizationState::kInitial ||
           config.state == QuantizationState::kPassiveInit;
  };
  return joinable(x) && joinable(y) && x.policy == y.policy && x.bits == y.bits &&
         x.dtype == y.dtype && x.quant_min == y.quant_min && x.quant_max == y.quant_max &&
         x.rounding == y.rounding && x.formula == y.formula &&
         x.small_float.exponent_bits == y.small_float.exponent_bits && !x.per_channel();
}

bool Join(QuantizationRecord& record, int child, int parent) {
  if (child < 0 || parent < 0) return false;
  const int from = record.RootIndex(child);
  const int to = record.RootIndex(parent);
  if (from == to) return true;
  if (!CanJoin(record, from, to)) return false;
  TensorQuantizationConfig& config = At(record, from);
  // A slot with a scale of its own follows nobody who has another one.
  const TensorQuantizationConfig& decides = At(record, to);
  if (!config.scale.empty() && (config.scale != decides.scale || config.offset != decides.offset)) {
    return false;
  }
  config.dominator = to;
  Transit(config.state, QuantizationState::kOverlapped, config.node);
  return true;
}

void JoinConfigs(const Graph& graph, QuantizationRecord& record) {
  JoinAbsorbed(graph, record);
  for (const auto& value : graph.values()) {
    if (!value->is_constant()) JoinValue(*value, record);
  }
  for (const auto& node : graph.nodes()) {
    const OperatorQuantization* op = record.Find(node->name);
    if (op == nullptr || !op->quantized || op->rule != QuantRule::kPassive ||
        !op->absorbed_by.empty()) {
      continue;
    }
    for (const int output : op->outputs) {
      if (PadsWithAnother(*node)) {
        Join(record, op->inputs[0], output);
      } else {
        Join(record, output, op->inputs[0]);
      }
    }
  }
}

void JoinConcats(const Graph& graph, QuantizationRecord& record) {
  for (const auto& node : graph.nodes()) {
    const OperatorQuantization* op = record.Find(node->name);
    if (op == nullptr || !op->quantized || op->rule != QuantRule::kConcat) continue;
    for (size_t slot = 0; slot < op->inputs.size(); ++slot) {
      const Value* input = node->input(slot);
      if (input == nullptr || op->inputs[slot] < 0) continue;
      if (input->is_constant() || ServesOnly(graph, record, input, node.get())) {
        Join(record, op->inputs[slot], op->outputs[0]);
      }
    }
  }
}

}  // namespace requant
