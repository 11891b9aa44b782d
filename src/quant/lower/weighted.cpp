// Conv -> QLinearConv; Gemm -> com.microsoft::QGemm; MatMul -> QLinearMatMul.
#include "quant/assign.h"
#include "quant/lower/lowering.h"

namespace requant {
namespace {

/// Weight integers, their scales and zero points as constants.
struct WeightConstants {
  Value* integers;
  Value* scale;
  Value* zero_point;
};

WeightConstants EmitWeights(Lowering& lowering, const Node& node, const OperatorQuantization& op) {
  const TensorQuantizationConfig& config = lowering.Own(op.inputs[1]);
  const std::string& name = node.inputs[1]->name;
  WeightConstants out{};
  out.integers = lowering.Constant(name + "_q", config.baked);
  if (config.scale.size() == 1) {
    const Format format = FormatOf(config);
    out.scale = lowering.ScaleOf(format);
    out.zero_point = lowering.ZeroPointOf(format);
    return out;
  }
  out.scale = lowering.Constant(name + "_scale", Tensor::Vector(config.scale));
  Tensor zeros(config.dtype, {static_cast<int64_t>(config.scale.size())});
  for (size_t i = 0; i < config.offset.size(); ++i) {
    static_cast<uint8_t*>(zeros.raw())[i] = static_cast<uint8_t>(config.offset[i]);
  }
  out.zero_point = lowering.Constant(name + "_zero_point", std::move(zeros));
  return out;
}

/// nullptr without bias.
Value* EmitBias(Lowering& lowering, const Node& node, const OperatorQuantization& op) {
  if (op.inputs.size() < 3 || op.inputs[2] < 0) return nullptr;
  const TensorQuantizationConfig& config = lowering.Own(op.inputs[2]);
  if (config.baked.empty()) return nullptr;
  const Value* bias = node.input(2);
  return lowering.Constant((bias ? bias->name : node.name + "_bias") + "_q", config.baked);
}

}  // namespace

void LowerConvolution(Lowering& lowering, const Node& node, const OperatorQuantization& op) {
  const Format input = lowering.FormatOfSlot(op.inputs[0]);
  const Format output = lowering.FormatOfSlot(op.outputs[0]);
  Value* data = lowering.IntegerInput(node, op, 0);
  const WeightConstants weights = EmitWeights(lowering, node, op);
  std::vector<Value*> inputs = {data,
                                lowering.ScaleOf(input),
                                lowering.ZeroPointOf(input),
                                weights.integers,
                                weights.scale,
                                weights.zero_point,
                                lowering.ScaleOf(output),
                                lowering.ZeroPointOf(output)};
  if (Value* bias = EmitBias(lowering, node, op)) inputs.push_back(bias);
  lowering.EmitCompute(node, op, "QLinearConv", "", std::move(inputs), node.attributes);
}

void LowerMatrixProduct(Lowering& lowering, const Node& node, const OperatorQuantization& op) {
  const Format a = lowering.FormatOfSlot(op.inputs[0]);
  const Format output = lowering.FormatOfSlot(op.outputs[0]);
  Value* data = lowering.IntegerInput(node, op, 0);
  if (WeightSlot(node, op.rule) < 0) {
    const Format b = lowering.FormatOfSlot(op.inputs[1]);
    Value* other = lowering.IntegerInput(node, op, 1);
    lowering.EmitCompute(
        node, op, "QLinearMatMul", "",
        {data, lowering.ScaleOf(a), lowering.ZeroPointOf(a), other, lowering.ScaleOf(b),
         lowering.ZeroPointOf(b), lowering.ScaleOf(output), lowering.ZeroPointOf(output)});
    return;
  }
  const WeightConstants weights = EmitWeights(lowering, node, op);
  std::vector<Value*> inputs = {
      data,          lowering.ScaleOf(a), lowering.ZeroPointOf(a), weights.integers,
      weights.scale, weights.zero_point};
  const bool gemm = node.op_type == "Gemm";
  AttributeMap attributes;
  if (gemm) {
    inputs.push_back(EmitBias(lowering, node, op));
    attributes.Set("transB", node.attributes.Int("transB", 0));
  }
  inputs.push_back(lowering.ScaleOf(output));
  inputs.push_back(lowering.ZeroPointOf(output));
  lowering.EmitCompute(node, op, gemm ? "QGemm" : "QLinearMatMul", gemm ? kMicrosoftDomain : "",
                       std::move(inputs), std::move(attributes));
}

}  // namespace requant
