// The float graph with Q/DQ pairs: what other runtimes read.
#include <map>

#include "base/error.h"
#include "base/str_cat.h"
#include "quant/affine.h"
#include "quant/assign.h"
#include "quant/lower/lowering.h"

namespace requant {
namespace {

class QdqWriter {
 public:
  explicit QdqWriter(const QuantizedModel& model)
      : graph_(model.float_graph), record_(model.record) {}

  Graph Run() {
    out_.name = graph_.name;
    out_.opsets = graph_.opsets;
    out_.metadata = graph_.metadata;
    for (const Value* input : graph_.inputs()) {
      Value* made = out_.AddValue(input->name, input->type);
      made->constant = input->constant;
      out_.AddInput(made);
      raw_[input] = made;
    }
    for (const auto& node : graph_.nodes()) Write(*node);
    for (const Value* output : graph_.outputs()) out_.AddOutput(ReadFloat(output));
    out_.RemoveUnusedValues();
    return std::move(out_);
  }

 private:
  const TensorQuantizationConfig& Own(int index) const {
    return record_.configs[static_cast<size_t>(index)];
  }
  Format FormatOfSlot(int index) const { return FormatOf(record_.Root(index)); }

  Format ProducerFormat(const Value* value) const {
    const OperatorQuantization* op = record_.Find(value->producer->name);
    for (size_t slot = 0; slot < op->outputs.size(); ++slot) {
      if (value->producer->output(slot) == value) return FormatOfSlot(op->outputs[slot]);
    }
    Fail(ErrorCode::kInternal, "a value without a slot", {.value = value->name});
  }

  Value* Raw(const Value* value) {
    Value*& made = raw_[value];
    if (made == nullptr && value->is_constant()) {
      made = out_.AddConstant(value->name, value->constant);
    }
    if (made == nullptr) {
      Fail(ErrorCode::kInternal, StrCat("value '", value->name, "' was never written"));
    }
    return made;
  }

  /// What float operators and graph outputs read.
  Value* ReadFloat(const Value* value) {
    return IsMaterialized(record_, value) ? ReadDq(value, ProducerFormat(value)) : Raw(value);
  }

  Value* ReadDq(const Value* value, const Format& format) {
    for (const auto& [known, made] : dq_[value]) {
      if (known == format) return made;
    }
    const bool materialized = IsMaterialized(record_, value);
    const bool own = materialized && ProducerFormat(value) == format;
    Value* real = materialized && !own ? ReadDq(value, ProducerFormat(value)) : Raw(value);
    const std::string& name = value->name;
    Value* scale = out_.AddConstant(name + "_scale", Tensor::Scalar(format.scale));
    Value* zero_point =
        out_.AddConstant(name + "_zero_point", ZeroPoints(format.dtype, {format.offset}, {}));
    Value* integers = out_.AddOp("QuantizeLinear", "", {real, scale, zero_point}, name + "_q",
                                 {format.dtype, value->type.shape}, {}, name + "_quantize");
    if (format.narrow()) integers = Limit(name, integers, format);
    const bool is_result = own && graph_.IsOutput(value);
    Value* made =
        out_.AddOp("DequantizeLinear", "", {integers, scale, zero_point},
                   is_result ? name : name + "_dq", value->type, {}, name + "_dequantize");
    dq_[value].emplace_back(format, made);
    return made;
  }

  /// Fewer codes than the type has, in its own integers.
  Value* Limit(const std::string& name, Value* integers, const Format& format) {
    Value* low = out_.AddConstant(name + "_low", ZeroPoints(format.dtype, {format.low}, {}));
    Value* high = out_.AddConstant(name + "_high", ZeroPoints(format.dtype, {format.high}, {}));
    return out_.AddOp("Clip", "", {integers, low, high}, name + "_q", integers->type, {},
                      name + "_limit");
  }

  static Tensor ZeroPoints(DType dtype, const std::vector<int32_t>& offsets, Shape shape) {
    Tensor out(dtype, std::move(shape));
    for (size_t i = 0; i < offsets.size(); ++i) {
      if (dtype == DType::kInt32) {
        out.data<int32_t>()[i] = offsets[i];
      } else {
        static_cast<uint8_t*>(out.raw())[i] = static_cast<uint8_t>(offsets[i]);
      }
    }
    return out;
  }

  /// Integers -> DequantizeLinear, whose output has the parameter's name.
  Value* Parameter(const std::string& name, const TensorQuantizationConfig& config) {
    const bool spread = config.scale.size() > 1;
    const Shape shape = spread ? Shape{static_cast<int64_t>(config.scale.size())} : Shape{};
    Value* integers = out_.AddConstant(name + "_q", config.baked);
    Value* scale = out_.AddConstant(name + "_scale", Tensor::FromVector(config.scale, shape));
    Value* zero_point =
        out_.AddConstant(name + "_zero_point", ZeroPoints(config.dtype, config.offset, shape));
    AttributeMap attributes;
    if (spread) attributes.Set("axis", int64_t{config.axis});
    return out_.AddOp("DequantizeLinear", "", {integers, scale, zero_point}, name,
                      {DType::kFloat32, ToSymbolic(config.baked.shape())}, std::move(attributes),
                      name + "_dequantize");
  }

  Value* ReadSlot(const Node& node, const OperatorQuantization& op, size_t slot) {
    const Value* value = node.inputs[slot];
    if (value == nullptr) return nullptr;
    const int index = slot < op.inputs.size() ? op.inputs[slot] : -1;
    const bool plain = index < 0 || !IsQuantizing(Own(index).state);
    if (value->is_constant()) {
      const bool in_float =
          plain || Own(index).baked.empty() || InTable(node, op) || op.rule == QuantRule::kPassive;
      return in_float ? Raw(value) : Parameter(value->name, Own(index));
    }
    if (plain) return Raw(value);
    const bool inside = value->producer && !IsMaterialized(record_, value) &&
                        record_.Find(value->producer->name)->quantized;
    return inside ? Raw(value) : ReadDq(value, FormatOfSlot(index));
  }

  /// Whether the node is computed by a table, with its constants as floats.
  bool InTable(const Node& node, const OperatorQuantization& op) const {
    if (!op.table.empty()) return true;
    if (op.absorbed_by.empty()) return false;
    return record_.Find(op.absorbed_by)->activation != node.name;
  }

  void Write(const Node& node) {
    const OperatorQuantization* op = record_.Find(node.name);
    std::vector<Value*> inputs, outputs;
    for (size_t slot = 0; slot < node.inputs.size(); ++slot) {
      const Value* value = node.inputs[slot];
      if (op != nullptr && op->quantized) {
        inputs.push_back(ReadSlot(node, *op, slot));
      } else {
        inputs.push_back(value ? ReadFloat(value) : nullptr);
      }
    }
    if (op != nullptr && op->quantized) {
      // A bias that bias correction has made.
      const int bias = BiasSlot(node, op->rule);
      const auto slot = static_cast<size_t>(bias);
      if (bias >= 0 && node.input(slot) == nullptr && slot < op->inputs.size() &&
          op->inputs[slot] >= 0 && !Own(op->inputs[slot]).baked.empty()) {
        inputs.resize(std::max(inputs.size(), slot + 1));
        inputs[slot] = Parameter(node.name + "_bias", Own(op->inputs[slot]));
      }
    }
    for (const Value* value : node.outputs) {
      if (value == nullptr) {
        outputs.push_back(nullptr);
        continue;
      }
      const bool hidden = graph_.IsOutput(value) && IsMaterialized(record_, value);
      Value* made = out_.AddValue(hidden ? value->name + "_raw" : value->name, value->type);
      raw_[value] = made;
      outputs.push_back(made);
    }
    out_.AddNode(node.op_type, node.domain, std::move(inputs), std::move(outputs), node.attributes,
                 node.name);
  }

  const Graph& graph_;
  const QuantizationRecord& record_;
  Graph out_;
  std::map<const Value*, Value*> raw_;
  std::map<const Value*, std::vector<std::pair<Format, Value*>>> dq_;
};

}  // namespace

Graph ToQdq(const QuantizedModel& model) { return QdqWriter(model).Run(); }

}  // namespace requant
