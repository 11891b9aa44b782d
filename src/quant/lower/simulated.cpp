// Lowers operators on grids that no integer operator has: they compute in float, between
// FakeQuantize nodes. Only the quantizer makes such graphs; no file contains them.
#include "quant/lower/simulated.h"

#include "numeric/rounding.h"
#include "quant/assign/assign.h"
#include "quant/grid/affine.h"
#include "quant/lower/lowering.h"

namespace requant {

Value* Lowering::OnGrid(const std::string& name, Value* real,
                        const TensorQuantizationConfig& config) {
  AttributeMap attributes;
  attributes.Set("quant_min", config.quant_min);
  attributes.Set("quant_max", config.quant_max);
  attributes.Set("rounding", std::string(RoundingPolicyName(config.rounding)));
  if (config.scale.size() > 1) attributes.Set("axis", int64_t{config.axis});
  if (config.exponential()) {
    attributes.Set("exponent_bits", int64_t{config.small_float.exponent_bits});
    attributes.Set("mantissa_bits", int64_t{config.small_float.mantissa_bits});
  }
  out_.opsets[kRequantDomain] = 1;
  return out_.AddOp("FakeQuantize", kRequantDomain,
                    {real, Constant(name + "_scale", Tensor::Vector(config.scale)),
                     Constant(name + "_offset", Tensor::Vector(config.offset))},
                    name + "_grid", real->type, std::move(attributes), name + "_fake_quantize");
}

/// Emits a float node with its inputs on their grids, and with its output on its grid, too, if the
/// operator writes it.
void Lowering::EmitSimulated(const Node& node, bool last) {
  const OperatorQuantization& op = *record().Find(node.name);
  std::vector<Value*> inputs;
  for (size_t slot = 0; slot < node.inputs.size(); ++slot) {
    const Value* value = node.inputs[slot];
    const int index = slot < op.inputs.size() ? op.inputs[slot] : -1;
    if (value == nullptr) {
      inputs.push_back(nullptr);
      continue;
    }
    const bool on_grid = index >= 0 && IsQuantizing(Own(index).state);
    if (value->is_constant()) {
      const TensorQuantizationConfig* own = index >= 0 ? &Own(index) : nullptr;
      const bool has = own && !own->baked.empty() && op.table.empty();
      if (!has) {
        inputs.push_back(Float(value));
      } else if (own->scale.empty()) {
        inputs.push_back(Constant(value->name, own->baked));
      } else {
        inputs.push_back(Constant(value->name, DequantizeParameter(own->baked, *own)));
      }
      continue;
    }
    const bool inside = IsInside(record(), value);
    const TensorQuantizationConfig* root = on_grid ? &record().Root(index) : nullptr;
    Value* real = Float(value);
    if (root && !inside && grid_[value] != root) {
      Value*& made = gridded_[{value, root}];
      if (made == nullptr) made = OnGrid(value->name, real, *root);
      real = made;
    }
    inputs.push_back(real);
  }
  const int bias = BiasSlot(node, op.rule);
  const auto bias_slot = static_cast<size_t>(bias);
  if (WeightSlot(node, op.rule) >= 0 && bias >= 0 && node.input(bias_slot) == nullptr &&
      bias_slot < op.inputs.size() && op.inputs[bias_slot] >= 0) {
    const TensorQuantizationConfig& own = Own(op.inputs[bias_slot]);
    if (!own.baked.empty()) {
      inputs.resize(std::max(inputs.size(), bias_slot + 1));
      inputs[bias_slot] = Constant(
          node.name + "_bias", own.scale.empty() ? own.baked : DequantizeParameter(own.baked, own));
    }
  }
  std::vector<Value*> outputs;
  const bool gridded = last && !op.float_output;
  for (const Value* value : node.outputs) {
    outputs.push_back(
        value ? out_.AddValue(gridded ? value->name + "_raw" : value->name, value->type) : nullptr);
  }
  CopyNode(node, std::move(inputs), outputs);
  for (size_t slot = 0; slot < node.outputs.size(); ++slot) {
    const Value* value = node.outputs[slot];
    if (value == nullptr) continue;
    const int index = op.outputs[slot];
    if (!gridded || index < 0 || !IsQuantizing(Own(index).state)) {
      SetFloat(value, outputs[slot]);
      continue;
    }
    const TensorQuantizationConfig& root = record().Root(index);
    Value* made = OnGrid(value->name, outputs[slot], root);
    out_.RenameValue(made, value->name);
    SetFloat(value, made);
    grid_[value] = &root;
  }
}

void Lowering::LowerSimulated(Lowering& lowering, const Node& node,
                              const OperatorQuantization& op) {
  const Graph& source = lowering.source();
  for (const std::string& name : op.table) {
    if (name != node.name) lowering.EmitSimulated(*source.FindNode(name), false);
  }
  lowering.EmitSimulated(node, op.activation.empty());
  if (!op.activation.empty()) lowering.EmitSimulated(*source.FindNode(op.activation), true);
}

void MarkSimulated(const Graph& graph, QuantizationRecord& record) {
  for (const auto& node : graph.nodes()) {
    OperatorQuantization& op = record.operators.at(node->name);
    if (!op.quantized) continue;
    const int weight = WeightSlot(*node, op.rule);
    const int bias = weight >= 0 ? BiasSlot(*node, op.rule) : -1;
    for (size_t slot = 0; slot < op.inputs.size(); ++slot) {
      const auto index = static_cast<int>(slot);
      if (op.inputs[slot] < 0 || index == bias) continue;
      const TensorQuantizationConfig& own = record.configs[static_cast<size_t>(op.inputs[slot])];
      if (own.state == QuantizationState::kSoi || own.state == QuantizationState::kFp32) continue;
      const TensorQuantizationConfig& root = record.Root(op.inputs[slot]);
      op.simulated =
          op.simulated || (index == weight ? root.exotic_weight() : root.exotic_activation());
    }
    for (const int output : op.outputs) {
      op.simulated = op.simulated || (output >= 0 && record.Root(output).exotic_activation());
    }
    op.lower_simulated = &Lowering::LowerSimulated;
  }
}

}  // namespace requant
