// The float graph with Q/DQ pairs: what other runtimes read.
#include <map>

#include "base/error.h"
#include "base/str_cat.h"
#include "quant/affine.h"
#include "quant/assign.h"
#include "quant/lower/lowering.h"
#include "quant/weight_only.h"

namespace requant {
namespace {

class QdqWriter {
 public:
  QdqWriter(const QuantizedModel& model, bool int4)
      : graph_(model.float_graph), record_(model.record), int4_(int4) {}

  Graph Run() {
    out_.name = graph_.name;
    out_.opsets = graph_.opsets;
    CheckForms();
    if (int4_) out_.opsets[""] = std::max(out_.opset(), 21);
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
  void CheckForms() const {
    for (const auto& node : graph_.nodes()) {
      const OperatorQuantization* op = record_.Find(node->name);
      if (op && op->simulated) {
        Fail(ErrorCode::kUnsupported,
             StrCat("the grid of operator '", node->name, "' cannot be said with Q/DQ"),
             {.node = node->name,
              .hint = "use at most 8 bits, integers, HALF_EVEN and one scale for "
                      "each activation"});
      }
    }
    if (int4_) RequireRaisable(graph_);
  }

  /// ONNX's 4-bit type for these codes; kUndefined when there is none.
  DType Nibble(DType dtype, int64_t low, int64_t high) const {
    if (!int4_) return DType::kUndefined;
    if (dtype == DType::kUint8 && low == 0 && high == 15) return DType::kUint4;
    return dtype == DType::kInt8 && low == -8 && high == 7 ? DType::kInt4 : DType::kUndefined;
  }

  static Tensor Packed(const Tensor& bytes, DType dtype) {
    Tensor out(dtype, bytes.shape());
    auto* to = static_cast<uint8_t*>(out.raw());
    for (int64_t i = 0; i < bytes.count(); ++i) {
      const auto code = static_cast<uint8_t>(static_cast<uint8_t>(bytes.AsInt64(i)) & 15);
      to[i / 2] = static_cast<uint8_t>(i % 2 == 0 ? code : to[i / 2] | (code << 4));
    }
    return out;
  }

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
    const DType nibble = Nibble(format.dtype, format.low, format.high);
    const bool small = nibble != DType::kUndefined;
    Tensor offset = ZeroPoints(format.dtype, {format.offset}, {});
    Value* zero_point =
        out_.AddConstant(name + "_zero_point", small ? Packed(offset, nibble) : std::move(offset));
    Value* integers =
        out_.AddOp("QuantizeLinear", "", {real, scale, zero_point}, name + "_q",
                   {small ? nibble : format.dtype, value->type.shape}, {}, name + "_quantize");
    if (format.narrow() && !small) integers = Limit(name, integers, format);
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
    // Symmetric codes leave -8 out, which int4 has none the less.
    const DType nibble = config.bits == 4 && config.dtype == DType::kInt8
                             ? Nibble(config.dtype, -8, 7)
                             : DType::kUndefined;
    const bool small = nibble != DType::kUndefined;
    Value* integers =
        out_.AddConstant(name + "_q", small ? Packed(config.baked, nibble) : config.baked);
    Value* scale = out_.AddConstant(name + "_scale", Tensor::FromVector(config.scale, shape));
    Tensor offsets = ZeroPoints(config.dtype, config.offset, shape);
    Value* zero_point = out_.AddConstant(name + "_zero_point",
                                         small ? Packed(offsets, nibble) : std::move(offsets));
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
  bool int4_;
  Graph out_;
  std::map<const Value*, Value*> raw_;
  std::map<const Value*, std::vector<std::pair<Format, Value*>>> dq_;
};

}  // namespace

Graph ToQdq(const QuantizedModel& model, bool int4) { return QdqWriter(model, int4).Run(); }

}  // namespace requant
