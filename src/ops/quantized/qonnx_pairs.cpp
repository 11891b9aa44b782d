// Turns our own QONNX exports into Q/DQ pairs, which quant/file/from_qdq.cpp reads.
// Before: x -> Quant -> y
// After:  x -> QuantizeLinear -> (Clip) -> DequantizeLinear -> y; constants become integers behind
//   DequantizeLinear
// Conditions: the file says that it is ours (other tools put Quant nodes where no integer operator
//   follows: qonnx.cpp), and every node has constant parameters and 1 to 8 bits.
// Formula: both round x / scale half to even; with an odd zero point, ties go to the other side.
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/str_cat.h"
#include "numeric/sign_steps.h"
#include "ops/quantized/qonnx.h"

namespace requant {
namespace {

struct Codes {
  std::vector<float> offsets = {0};  // one, or one for each scale
  int32_t low = -1, high = 1;
  bool bipolar = false;  // the code is the sign
  DType dtype() const { return low < 0 ? DType::kInt8 : DType::kUint8; }
  float Offset(size_t channel) const { return offsets[channel % offsets.size()]; }
};

bool ReadCodes(const Node& node, Codes& codes) {
  const Tensor* scale = node.constant(1);
  if (scale == nullptr || scale->dtype() != DType::kFloat32 || scale->count() == 0) return false;
  if (node.op_type == "BipolarQuant") {
    codes.bipolar = true;
    return node.constant(0) != nullptr || scale->count() == 1;
  }
  const Tensor* zero = node.constant(2);
  const Tensor* bits = node.constant(3);
  if (zero == nullptr || bits == nullptr || bits->count() != 1 ||
      (zero->count() != 1 && zero->shape() != scale->shape()) ||
      node.attributes.String("rounding_mode", "ROUND") != "ROUND") {
    return false;
  }
  const double width = bits->AsDouble(0);
  if (width != std::floor(width) || width < 1 || width > 8) return false;
  const bool is_signed = node.attributes.Int("signed", 1) != 0;
  if (width == 1 && is_signed) {
    codes.bipolar = true;
    return zero->AsDouble(0) == 0 && (node.constant(0) != nullptr || scale->count() == 1);
  }
  const bool narrow = node.attributes.Int("narrow", 0) != 0;
  if (narrow && !is_signed) return false;
  const auto count = static_cast<int32_t>(1) << static_cast<int>(width);
  codes.low = is_signed ? -count / 2 + (narrow ? 1 : 0) : 0;
  codes.high = is_signed ? count / 2 - 1 : count - 1;
  codes.offsets = zero->ToFloats();
  const auto is_code = [&codes](float offset) {
    return offset == std::floor(offset) && offset >= static_cast<float>(codes.low) &&
           offset <= static_cast<float>(codes.high);
  };
  return std::all_of(codes.offsets.begin(), codes.offsets.end(), is_code) &&
         (node.constant(0) != nullptr || scale->count() == 1);
}

/// The axis along which the scales differ; -1 for one scale, -2 for several axes.
int AxisOf(const Tensor& scale, int64_t rank) {
  if (scale.count() == 1) return -1;
  int axis = -2;
  for (int64_t i = 0; i < scale.rank(); ++i) {
    if (scale.dim(i) == 1) continue;
    if (axis >= 0) return -2;
    axis = static_cast<int>(i + rank - scale.rank());
  }
  return axis;
}

class Speller {
 public:
  explicit Speller(Graph& graph) : graph_(graph) {}

  bool Run() {
    std::vector<Node*> nodes;
    for (const auto& node : graph_.nodes()) {
      if (node->op_type == "Trunc") return false;
      if (node->op_type != "Quant" && node->op_type != "BipolarQuant") continue;
      Codes codes;
      if (!ReadCodes(*node, codes)) return false;
      const Tensor* constant = node->constant(0);
      if (constant && AxisOf(*node->constant(1), constant->rank()) == -2) return false;
      nodes.push_back(node.get());
    }
    for (Node* node : nodes) Spell(*node);
    graph_.SortTopologically();
    return !nodes.empty();
  }

 private:
  Value* Byte(const std::string& name, DType dtype, int32_t code) {
    Tensor tensor(dtype, {});
    *static_cast<uint8_t*>(tensor.raw()) = static_cast<uint8_t>(code);
    return graph_.AddConstant(name, std::move(tensor));
  }
  Value* Offsets(const std::string& name, const Codes& codes, Shape shape) {
    Tensor tensor(codes.dtype(), std::move(shape));
    for (int64_t i = 0; i < tensor.count(); ++i) {
      static_cast<uint8_t*>(tensor.raw())[i] =
          static_cast<uint8_t>(static_cast<int32_t>(codes.Offset(static_cast<size_t>(i))));
    }
    return graph_.AddConstant(name, std::move(tensor));
  }

  static Tensor Integers(const Tensor& reals, const Codes& codes, const std::vector<float>& scales,
                         int axis) {
    Tensor out(codes.dtype(), reals.shape());
    int64_t inner = 1;
    for (int64_t i = axis + 1; axis >= 0 && i < reals.rank(); ++i) inner *= reals.dim(i);
    const auto channels = static_cast<int64_t>(scales.size());
    for (int64_t i = 0; i < reals.count(); ++i) {
      const auto channel = static_cast<size_t>(i / inner % channels);
      const auto scale = static_cast<double>(scales[channel]);
      if (codes.bipolar) {
        static_cast<int8_t*>(out.raw())[i] = reals.AsDouble(i) / scale >= 0 ? 1 : -1;
        continue;
      }
      const double code =
          std::nearbyint(reals.AsDouble(i) / scale) + static_cast<double>(codes.Offset(channel));
      const double inside =
          std::clamp(code, static_cast<double>(codes.low), static_cast<double>(codes.high));
      static_cast<uint8_t*>(out.raw())[i] = static_cast<uint8_t>(static_cast<int32_t>(inside));
    }
    return out;
  }

  /// A pair of the codes -1..high: real -> Q -> Clip -> DQ -> `made`.
  void Pair(const std::string& name, Value* real, float step, int32_t zero_point, int32_t high,
            Value* made) {
    Value* scale = graph_.AddConstant(name + "_scale", Tensor::Scalar(step));
    Value* zero = Byte(name + "_zero", DType::kInt8, zero_point);
    Value* integers = graph_.AddOp("QuantizeLinear", "", {real, scale, zero}, name + "_q",
                                   {DType::kInt8, real->type.shape});
    integers = graph_.AddOp(
        "Clip", "",
        {integers, Byte(name + "_low", DType::kInt8, -1), Byte(name + "_high", DType::kInt8, high)},
        name + "_q", integers->type);
    graph_.AddNode("DequantizeLinear", "", {integers, scale, zero}, {made});
  }

  /// Signs, as numeric/sign_steps.h has them. The writer puts the threshold into an Add.
  void SpellSigns(Node& node, Value* made) {
    const float scale = node.constant(1)->data<float>()[0];
    Value* real = node.inputs[0];
    const std::string name = made->name;
    Node* shift = real->producer;
    const Tensor* threshold = shift && shift->Is(Op::kAdd) ? shift->constant(1) : nullptr;
    const bool above = threshold && threshold->count() == 1 &&
                       threshold->dtype() == DType::kFloat32 &&
                       threshold->data<float>()[0] == -scale;
    if (above) real = shift->inputs[0];
    const SignSteps steps = StepsOfSigns(scale, above ? 1 : 0);
    Value* data = graph_.AddValue(name + "_bit", real->type);
    Pair(name + "_source", real, steps.step, steps.zero_point, 0, data);
    Value* factor = graph_.AddConstant(name + "_factor", Tensor::Scalar(steps.factor));
    data = graph_.AddOp("Mul", "", {data, factor}, name + "_scaled", real->type);
    Value* by = graph_.AddConstant(name + "_shift", Tensor::Scalar(steps.shift));
    Value* signs = graph_.AddOp("Add", "", {data, by}, name + "_signs", real->type);
    Pair(name + "_sign", signs, scale, 0, 1, made);
    graph_.SetInput(&node, 0, real);
    if (above && shift->outputs[0]->consumers.empty() && !graph_.IsOutput(shift->outputs[0])) {
      graph_.EraseNode(shift);
    }
  }

  void Spell(Node& node) {
    Codes codes;
    ReadCodes(node, codes);
    const DType dtype = codes.dtype();
    Value* result = node.outputs[0];
    const std::string name = result->name;
    Value* made = graph_.AddValue(name + "_dq", result->type);
    if (const Tensor* constant = node.constant(0)) {
      const Tensor& scale = *node.constant(1);
      const int axis = AxisOf(scale, constant->rank());
      const std::vector<float> scales = scale.ToFloats();
      Value* integers = graph_.AddConstant(name + "_q", Integers(*constant, codes, scales, axis));
      // -1 and 1 without 0 are in reverse
      graph_.metadata[kCodesKey] += StrCat(name, " ", codes.bipolar ? codes.high : codes.low, " ",
                                           codes.bipolar ? codes.low : codes.high, "\n");
      const auto channels = static_cast<int64_t>(scales.size());
      const Shape shape = axis < 0 ? Shape{} : Shape{channels};
      AttributeMap attributes;
      if (axis >= 0) attributes.Set("axis", int64_t{axis});
      graph_.AddNode(
          "DequantizeLinear", "",
          {integers, graph_.AddConstant(name + "_scale", Tensor::FromVector(scales, shape)),
           Offsets(name + "_zero", codes, shape)},
          {made}, std::move(attributes));
    } else if (codes.bipolar) {
      SpellSigns(node, made);
    } else {
      Value* scale = graph_.AddConstant(name + "_scale", node.constant(1)->Reshaped({}));
      Value* zero = Offsets(name + "_zero", codes, {});
      Value* integers = graph_.AddOp("QuantizeLinear", "", {node.inputs[0], scale, zero},
                                     name + "_q", {dtype, result->type.shape});
      if (codes.high - codes.low < 255) {
        integers = graph_.AddOp("Clip", "",
                                {integers, Byte(name + "_low", dtype, codes.low),
                                 Byte(name + "_high", dtype, codes.high)},
                                name + "_q", integers->type);
      }
      graph_.AddNode("DequantizeLinear", "", {integers, scale, zero}, {made});
    }
    graph_.ReplaceAndKeepName(result, made);
    graph_.EraseNode(&node);
    if (made->name != name) graph_.RenameValue(made, name);
  }

  Graph& graph_;
};

}  // namespace

bool SpellQdq(Graph& graph) {
  const auto form = graph.metadata.find(kFormKey);
  return form != graph.metadata.end() && form->second == "qonnx" && Speller(graph).Run();
}

}  // namespace requant
