// Lowers operators on grids that no integer operator has: they compute in float, between
// FakeQuantize nodes. Only the quantizer makes such graphs; no file contains them.
#include "quant/lower/simulated.h"

#include "numeric/rounding.h"
#include "ops/quantized/wide.h"
#include "quant/assign/assign.h"
#include "quant/grid/affine.h"
#include "quant/lower/lowering.h"
#include "quant/lower/normalization.h"

namespace requant {

Value* LimitInFile(Graph& graph, const std::string& name, Value* integers, const Format& format) {
  const DType dtype = IsWide(format.dtype) ? DType::kInt32 : format.dtype;
  const auto bound = [&](const char* what, int32_t number) {
    Tensor tensor(dtype, {});
    if (dtype == DType::kInt32) {
      tensor.data<int32_t>()[0] = number;
    } else {
      StoreCode(tensor.raw(), dtype, 0, number);
    }
    return graph.AddConstant(name + what, std::move(tensor));
  };
  const auto cast = [&](Value* from, DType to, const char* what) {
    if (from->type.dtype == to) return from;
    AttributeMap attributes;
    attributes.Set("to", static_cast<int64_t>(to));
    return graph.AddOp("Cast", "", {from}, name + "_q", {to, from->type.shape},
                       std::move(attributes), name + what);
  };
  const ValueType type{dtype, integers->type.shape};
  Value* limited = graph.AddOp(
      "Clip", "",
      {cast(integers, dtype, "_widen"), bound("_low", format.low), bound("_high", format.high)},
      name + "_q", type, {}, name + "_limit");
  return cast(limited, format.dtype, "_narrow");
}

Value* Lowering::OnGrid(const std::string& name, Value* real,
                        const TensorQuantizationConfig& config) {
  if (options_.lower_wide) {
    const Format format = FormatOf(config);
    Value* zero_point = ZeroPointOf(format);
    Value* integers = out_.AddOp("QuantizeLinear", "", {real, ScaleOf(format), zero_point},
                                 name + "_q", {format.dtype, real->type.shape}, {});
    if (format.narrow()) integers = LimitInFile(out_, name, integers, format);
    return out_.AddOp("DequantizeLinear", "", {integers, ScaleOf(format), zero_point},
                      name + "_grid", real->type, {});
  }
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

/// The numbers of a parameter; for files, its integers and a DequantizeLinear.
Value* Lowering::Parameter(const std::string& name, const TensorQuantizationConfig& config) {
  Tensor real = DequantizeParameter(config.baked, config);
  if (options_.lower_wide == nullptr) return Constant(name, std::move(real));
  const bool spread = config.scale.size() > 1;
  const Shape shape = spread ? Shape{static_cast<int64_t>(config.scale.size())} : Shape{};
  Tensor zeros(config.baked.dtype(), shape);
  for (size_t i = 0; i < config.offset.size(); ++i) {
    if (config.baked.dtype() == DType::kInt32) continue;  // biases have no zero point
    StoreCode(zeros.raw(), config.baked.dtype(), static_cast<int64_t>(i), config.offset[i]);
  }
  AttributeMap attributes;
  if (spread) attributes.Set("axis", int64_t{std::max(config.axis, 0)});
  return out_.AddOp("DequantizeLinear", "",
                    {Constant(name + "_q", config.baked),
                     Constant(name + "_scale", Tensor::FromVector(config.scale, shape)),
                     Constant(name + "_zero_point", std::move(zeros))},
                    name, {DType::kFloat32, ToSymbolic(config.baked.shape())},
                    std::move(attributes));
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
        inputs.push_back(Parameter(value->name, *own));
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
      inputs[bias_slot] = own.scale.empty() ? Constant(node.name + "_bias", own.baked)
                                            : Parameter(node.name + "_bias", own);
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

namespace {

/// Calls `visit(config, is weight)` for the grids of an operator's slots, without its bias. The end
/// of a table also visits the grid of the table's input, which another member may read.
template <typename Visit>
void VisitGrids(const Node& node, const QuantizationRecord& record, Visit&& visit) {
  const OperatorQuantization& op = record.operators.at(node.name);
  const int weight = WeightSlot(node, op.rule);
  const int bias = weight >= 0 ? BiasSlot(node, op.rule) : -1;
  for (size_t slot = 0; slot < op.inputs.size(); ++slot) {
    const auto index = static_cast<int>(slot);
    if (op.inputs[slot] < 0 || index == bias) continue;
    const TensorQuantizationConfig& own = record.configs[static_cast<size_t>(op.inputs[slot])];
    if (own.state == QuantizationState::kSoi || own.state == QuantizationState::kFp32) continue;
    visit(record.Root(op.inputs[slot]), index == weight);
  }
  for (const int output : op.outputs) {
    if (output >= 0) visit(record.Root(output), false);
  }
  if (op.table_config >= 0) visit(record.Root(op.table_config), false);
}

}  // namespace

bool HasExoticGrid(const Node& node, const QuantizationRecord& record) {
  bool exotic = false;
  VisitGrids(node, record, [&](const TensorQuantizationConfig& config, bool is_weight) {
    exotic = exotic || (is_weight ? config.exotic_weight() : config.exotic_activation());
  });
  return exotic;
}

void MarkSimulated(const Graph& graph, QuantizationRecord& record) {
  for (const auto& node : graph.nodes()) {
    OperatorQuantization& op = record.operators.at(node->name);
    if (!op.quantized) continue;
    bool wide = false;
    VisitGrids(*node, record, [&](const TensorQuantizationConfig& config, bool is_weight) {
      wide = wide || (config.wide() && !is_weight);
    });
    op.simulated =
        op.simulated || HasExoticGrid(*node, record) || (wide && LacksWideForm(*node, op.rule));
    op.lower_simulated = &Lowering::LowerSimulated;
    if (IsNormalization(*node)) op.lower_own = &LowerNormalization;
  }
}

}  // namespace requant
