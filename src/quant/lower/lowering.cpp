#include "quant/lower/lowering.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/str_cat.h"
#include "numeric/affine.h"
#include "ops/quantized/wide.h"
#include "quant/assign/assign.h"
#include "quant/grid/affine.h"

namespace requant {
namespace {

ValueType TypeLike(const Value* value, DType dtype) { return {dtype, value->type.shape}; }

Tensor IntegerScalar(DType dtype, int64_t value) {
  if (IsCode(dtype)) {
    Tensor scalar(dtype, {});
    StoreCode(scalar.raw(), dtype, 0, static_cast<int32_t>(value));
    return scalar;
  }
  return Tensor::Scalar(static_cast<int32_t>(value));
}

/// The bounds of a Relu, or of a Clip with constant bounds.
std::pair<float, float> ActivationBounds(const Node& node) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (node.Is(Op::kRelu)) return {0.0f, kInfinity};
  const Tensor* low = node.constant(1);
  const Tensor* high = node.constant(2);
  return {low ? static_cast<float>(low->AsDouble(0)) : -kInfinity,
          high ? static_cast<float>(high->AsDouble(0)) : kInfinity};
}

}  // namespace

Format FormatOf(const TensorQuantizationConfig& config) {
  if (config.scale.size() != 1 || config.offset.size() != 1 || !IsCode(config.dtype)) {
    Fail(ErrorCode::kInvalidQuantization,
         StrCat("the quantization of value '", config.value, "' has no scale of 8 or 16 bits"),
         {.node = config.node, .value = config.value, .hint = "calibrate the model first"});
  }
  Format format{config.dtype,
                config.scale[0],
                config.offset[0],
                static_cast<int32_t>(StorageMin(config.dtype)),
                static_cast<int32_t>(StorageMax(config.dtype)),
                config.bipolar(),
                config.threshold};
  // Codes of 8 bits keep -128 although the scale was chosen for [-127, 127]: it does no harm.
  const bool all_but_lowest =
      config.quant_max == format.high && config.quant_min == format.low + 1 && format.low < 0;
  if (config.bits < DTypeBits(config.dtype) || !all_but_lowest) {
    format.low = static_cast<int32_t>(config.quant_min);
    format.high = static_cast<int32_t>(config.quant_max);
  }
  return format;
}

bool Format::narrow() const { return low > StorageMin(dtype) || high < StorageMax(dtype); }

Tensor PatternValues(const Format& from) {
  const int32_t count = 1 << DTypeBits(from.dtype);
  const int32_t most = CodeMax(from.dtype);
  Tensor values(DType::kFloat32, {count});
  for (int32_t bits = 0; bits < count; ++bits) {
    const int32_t q = bits > most ? bits - count : bits;
    values.data<float>()[bits] = DequantizeLinear(q, from.scale, from.offset);
  }
  return values;
}

Tensor TableFrom(const Tensor& values, const Format& to) {
  Tensor table(to.dtype, {values.count()});
  for (int64_t i = 0; i < values.count(); ++i) {
    StoreCode(table.raw(), to.dtype, i,
              QuantizeLinear(values.data<float>()[i], to.scale, to.offset, {to.low, to.high}));
  }
  return table;
}

Lowering::Lowering(const QuantizedModel& model, const LowerOptions& options)
    : model_(model), options_(options) {}

Value* Lowering::Constant(const std::string& name, Tensor tensor) {
  return out_.AddConstant(name, std::move(tensor));
}

Value* Lowering::ScaleOf(const Format& format) {
  Value*& made = shared_[{__builtin_bit_cast(uint32_t, format.scale), -1}];
  if (made == nullptr) made = Constant("scale", Tensor::Scalar(format.scale));
  return made;
}

Value* Lowering::ZeroPointOf(const Format& format) {
  Value*& made = shared_[{static_cast<uint32_t>(format.offset), static_cast<int>(format.dtype)}];
  if (made == nullptr) {
    made = Constant("zero_point", IntegerScalar(format.dtype, format.offset));
  }
  return made;
}

Value* Lowering::NewInteger(const Value* value, const Format& format) {
  return out_.AddValue(value->name + "_q", TypeLike(value, format.dtype));
}

void Lowering::SetInteger(const Value* value, Value* integers, const Format& format) {
  forms_[value].integers.emplace_back(format, integers);
}

Value* Lowering::Quantize(const Value* value, Value* real, const Format& format) {
  Value* made = NewInteger(value, format);
  out_.AddNode("QuantizeLinear", "", {real, ScaleOf(format), ZeroPointOf(format)}, {made}, {},
               value->name + "_quantize");
  return Limited(value, made, format);
}

Value* Lowering::Limited(const Value* value, Value* integers, const Format& format) {
  if (!format.narrow()) return integers;
  Value* made = NewInteger(value, format);
  const std::string& name = value->name;
  out_.AddNode("Clip", "",
               {integers, Constant(name + "_low", IntegerScalar(format.dtype, format.low)),
                Constant(name + "_high", IntegerScalar(format.dtype, format.high))},
               {made}, {}, name + "_limit");
  return made;
}

Value* Lowering::Dequantized(const Value* value, Value* integers, const Format& format) {
  Value*& made =
      dequantized_[{integers, __builtin_bit_cast(uint32_t, format.scale), format.offset}];
  if (made != nullptr) return made;
  const Forms& forms = forms_[value];
  const bool primary =
      forms.real == nullptr && !forms.integers.empty() && forms.integers[0].second == integers;
  made =
      out_.AddValue(primary ? value->name : value->name + "_dq", TypeLike(value, DType::kFloat32));
  out_.AddNode("DequantizeLinear", "", {integers, ScaleOf(format), ZeroPointOf(format)}, {made}, {},
               value->name + "_dequantize");
  return made;
}

Value* Lowering::Float(const Value* value) {
  Forms& forms = forms_[value];
  if (forms.real != nullptr) return forms.real;
  if (!forms.integers.empty()) {
    return Dequantized(value, forms.integers[0].second, forms.integers[0].first);
  }
  if (value->is_constant()) return forms.real = Constant(value->name, value->constant);
  Fail(ErrorCode::kInternal, StrCat("value '", value->name, "' was never lowered"),
       {.value = value->name});
}

bool Lowering::HasWide(const std::vector<Value*>& inputs) {
  return std::any_of(inputs.begin(), inputs.end(),
                     [](const Value* input) { return input && IsWide(input->type.dtype); });
}

Value* Lowering::AnyForm(const Value* value) {
  Forms& forms = forms_[value];
  if (forms.real == nullptr && !forms.integers.empty()) return forms.integers[0].second;
  return Float(value);
}

Value* Lowering::Integer(const Value* value, const Format& format) {
  Forms& forms = forms_[value];
  for (const auto& [known, made] : forms.integers) {
    if (known == format) return made;
  }
  Value* made = nullptr;
  if (forms.real == nullptr && !forms.integers.empty()) {
    made = Requantize(value, forms.integers[0].second, forms.integers[0].first, format);
  } else {
    made = Quantize(value, Float(value), format);
  }
  forms_[value].integers.emplace_back(format, made);
  return made;
}

Value* Lowering::IntegerInput(const Node& node, const OperatorQuantization& op, size_t slot) {
  const int index = op.inputs[slot];
  if (Own(index).baked.empty()) return Integer(node.inputs[slot], FormatOfSlot(index));
  return Constant(node.inputs[slot]->name + "_q", Own(index).baked);
}

void Lowering::EmitLut(Value* integers, Tensor table, Value* result, std::string node_name) {
  const bool wide = table.count() != 256 || IsWide(table.dtype());
  Value* constant = Constant(node_name + "_table", std::move(table));
  out_.AddNode(wide ? "Lut16" : "Lut", kRequantDomain, {integers, constant}, {result}, {},
               std::move(node_name));
}

Value* Lowering::Requantize(const Value* value, Value* integers, const Format& from,
                            const Format& to) {
  if (!options_.use_lut) return Quantize(value, Dequantized(value, integers, from), to);
  Value* made = NewInteger(value, to);
  if (IsWide(from.dtype) || IsWide(to.dtype)) {
    out_.AddNode("Requantize16", kRequantDomain,
                 {integers, ScaleOf(from), ZeroPointOf(from), ScaleOf(to), ZeroPointOf(to)}, {made},
                 {}, value->name + "_requantize");
    return Limited(value, made, to);
  }
  EmitLut(integers, TableFrom(PatternValues(from), to), made, value->name + "_requantize");
  return made;
}

void Lowering::EmitCompute(const Node& node, const OperatorQuantization& op, std::string op_type,
                           std::string domain, std::vector<Value*> inputs,
                           AttributeMap attributes) {
  const Format format = FormatOfSlot(op.outputs[0]);
  // The operators that only move codes do not start with a Q.
  const bool wide = op_type[0] == 'Q' && (IsWide(format.dtype) || HasWide(inputs));
  if (wide) {
    op_type += "16";
    domain = kRequantDomain;
  }
  if (op.activation.empty()) {
    Value* result = NewInteger(node.outputs[0], format);
    out_.AddNode(std::move(op_type), std::move(domain), std::move(inputs), {result},
                 std::move(attributes), node.name);
    SetInteger(node.outputs[0], Limited(node.outputs[0], result, format), format);
    return;
  }
  const Node* activation = source().FindNode(op.activation);
  const Value* final_value = activation->outputs[0];
  const QuantizedRange range{format.low, format.high};
  const auto [low, high] = ActivationBounds(*activation);
  // A scale of 0 is excluded, so infinities saturate.
  const int32_t lo = QuantizeLinear(low, format.scale, format.offset, range);
  const int32_t hi = QuantizeLinear(high, format.scale, format.offset, range);
  const bool saturation_is_enough = lo <= range.min && hi >= range.max && !format.narrow();
  Value* result = NewInteger(saturation_is_enough ? final_value : node.outputs[0], format);
  out_.AddNode(std::move(op_type), std::move(domain), std::move(inputs), {result},
               std::move(attributes), node.name);
  if (!saturation_is_enough) {
    Value* clamped = NewInteger(final_value, format);
    Value* low_bound = Constant(activation->name + "_min", IntegerScalar(format.dtype, lo));
    Value* high_bound = Constant(activation->name + "_max", IntegerScalar(format.dtype, hi));
    out_.AddNode("Clip", "", {result, low_bound, high_bound}, {clamped}, {}, activation->name);
    result = clamped;
  }
  SetInteger(final_value, result, format);
}

Node* Lowering::CopyNode(const Node& node, std::vector<Value*> inputs,
                         std::vector<Value*> outputs) {
  return out_.AddNode(node.op_type, node.domain, std::move(inputs), std::move(outputs),
                      node.attributes, node.name);
}

void Lowering::LowerFloat(const Node& node) {
  std::vector<Value*> inputs, outputs;
  const OpDef* op = FindOp(node);
  const bool shape_only = op != nullptr && op->quant == QuantRule::kShape;
  for (size_t slot = 0; slot < node.inputs.size(); ++slot) {
    const Value* value = node.inputs[slot];
    inputs.push_back(value == nullptr                                     ? nullptr
                     : shape_only && slot == 0 && node.op_type == "Shape" ? AnyForm(value)
                                                                          : Float(value));
  }
  for (const Value* value : node.outputs) {
    outputs.push_back(value ? out_.AddValue(value->name, value->type) : nullptr);
    if (value) SetFloat(value, outputs.back());
  }
  CopyNode(node, std::move(inputs), std::move(outputs));
}

bool Lowering::UsesWide(const OperatorQuantization& op) const {
  const auto wide = [this](int index) {
    return index >= 0 && IsQuantizing(Own(index).state) && record().Root(index).wide();
  };
  return std::any_of(op.inputs.begin(), op.inputs.end(), wide) ||
         std::any_of(op.outputs.begin(), op.outputs.end(), wide) ||
         (op.table_config >= 0 && record().Root(op.table_config).wide());
}

namespace {

struct LowerRow {
  QuantRule rule;
  void (*lower)(Lowering&, const Node&, const OperatorQuantization&);
};

constexpr LowerRow kRows[] = {
    {QuantRule::kConv, LowerConvolution}, {QuantRule::kMatMul, LowerMatrixProduct},
    {QuantRule::kAdd, LowerSum},          {QuantRule::kMul, LowerProduct},
    {QuantRule::kConcat, LowerConcat},    {QuantRule::kAveragePool, LowerAverage},
    {QuantRule::kPassive, LowerPassive},
};

}  // namespace

Graph Lowering::Run() {
  out_.name = source().name;
  out_.opsets = source().opsets;
  out_.metadata = source().metadata;
  out_.opsets[kMicrosoftDomain] = 1;
  if (options_.use_lut) out_.opsets[kRequantDomain] = 1;
  for (const Value* input : source().inputs()) {
    Value* made = out_.AddValue(input->name, input->type);
    made->constant = input->constant;  // an input with a default value
    out_.AddInput(made);
    SetFloat(input, made);
  }
  for (const auto& node : source().nodes()) {
    const OperatorQuantization* op = record().Find(node->name);
    try {
      if (op == nullptr || !op->quantized) {
        LowerFloat(*node);
        continue;
      }
      if (!op->absorbed_by.empty()) continue;
      if (op->simulated) {
        op->lower_simulated(*this, *node, *op);
        continue;
      }
      if (options_.lower_wide && UsesWide(*op)) {
        options_.lower_wide(*this, *node, *op);
        continue;
      }
      if (op->lower_own) {
        op->lower_own(*this, *node, *op);
        continue;
      }
      if (!op->table.empty()) {
        LowerTable(*this, *node, *op);
        continue;
      }
      if (op->float_output) {
        LowerToFloat(*this, *node, *op);
        continue;
      }
      for (const LowerRow& row : kRows) {
        if (row.rule == op->rule) row.lower(*this, *node, *op);
      }
    } catch (Error& error) {
      error.AddNode(node->name);
      throw;
    }
  }
  for (const Value* output : source().outputs()) out_.AddOutput(Float(output));
  out_.RemoveUnusedValues();
  return std::move(out_);
}

IntegerModel LowerToInteger(const QuantizedModel& model, const LowerOptions& options) {
  if (model.record.expand_signs) {
    const QuantizedModel expanded = model.record.expand_signs(model);
    return IntegerModel(Lowering(expanded, options).Run());
  }
  return IntegerModel(Lowering(model, options).Run());
}

}  // namespace requant
