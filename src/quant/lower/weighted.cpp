// Lowers Conv to QLinearConv, ConvTranspose to ai.requant::QLinearConvTranspose, Gemm to
// com.microsoft::QGemm and MatMul to QLinearMatMul.
#include <algorithm>

#include "ops/quantized/wide.h"
#include "quant/assign/assign.h"
#include "quant/grid/affine.h"
#include "quant/lower/lowering.h"

namespace requant {
namespace {

/// Constants of a layer: the integers of the weights, their scales and zero points.
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

/// Emits the bias; nullptr if the layer has none.
Value* EmitBias(Lowering& lowering, const Node& node, const OperatorQuantization& op) {
  if (op.inputs.size() < 3 || op.inputs[2] < 0) return nullptr;
  const TensorQuantizationConfig& config = lowering.Own(op.inputs[2]);
  if (config.baked.empty()) return nullptr;
  const Value* bias = node.input(2);
  return lowering.Constant((bias ? bias->name : node.name + "_bias") + "_q", config.baked);
}

Tensor Transposed(const Tensor& bytes) {
  const int64_t rows = bytes.dim(0);
  const int64_t columns = bytes.dim(1);
  Tensor out(bytes.dtype(), {columns, rows});
  const auto* from = static_cast<const uint8_t*>(bytes.raw());
  auto* to = static_cast<uint8_t*>(out.raw());
  for (int64_t i = 0; i < rows * columns; ++i) to[i % columns * rows + i / columns] = from[i];
  return out;
}

/// Emits a convolution that writes floats in float, between DequantizeLinear nodes: ONNX Runtime's
/// ConvInteger has one zero point for all channels of the weights.
void EmitDequantizedConvolution(Lowering& lowering, const Node& node,
                                const OperatorQuantization& op, Value* data,
                                const WeightConstants& weights) {
  Graph& graph = lowering.graph();
  const Value* result = node.outputs[0];
  AttributeMap along;
  along.Set("axis", int64_t{0});
  const ValueType type{DType::kFloat32, ToSymbolic(weights.integers->constant.shape())};
  std::vector<Value*> inputs = {
      lowering.Dequantized(node.inputs[0], data, lowering.FormatOfSlot(op.inputs[0])),
      graph.AddOp("DequantizeLinear", "", {weights.integers, weights.scale, weights.zero_point},
                  node.inputs[1]->name, type, std::move(along))};
  const TensorQuantizationConfig* bias =
      op.inputs.size() > 2 && op.inputs[2] >= 0 ? &lowering.Own(op.inputs[2]) : nullptr;
  if (bias && !bias->baked.empty()) {
    inputs.push_back(
        lowering.Constant(node.name + "_bias", DequantizeParameter(bias->baked, *bias)));
  }
  Value* made = graph.AddValue(result->name, result->type);
  graph.AddNode(node.op_type, node.domain, std::move(inputs), {made}, node.attributes, node.name);
  lowering.SetFloat(result, made);
}

}  // namespace

/// Lowers a layer that writes floats: ConvInteger or MatMulInteger, times the scales, plus the
/// bias. Data of 16 bits has one operator for the product and the scales.
void LowerToFloat(Lowering& lowering, const Node& node, const OperatorQuantization& op) {
  const bool conv = op.rule == QuantRule::kConv;
  const Format input = lowering.FormatOfSlot(op.inputs[0]);
  Value* data = lowering.IntegerInput(node, op, 0);
  WeightConstants weights = EmitWeights(lowering, node, op);
  const TensorQuantizationConfig& config = lowering.Own(op.inputs[1]);
  const auto& offsets = config.offset;
  if (conv && !lowering.use_lut() &&
      std::any_of(offsets.begin(), offsets.end(), [&](int32_t one) { return one != offsets[0]; })) {
    EmitDequantizedConvolution(lowering, node, op, data, weights);
    return;
  }
  if (!conv && node.attributes.Int("transB", 0) != 0) {
    // readQuantized() finds the layer of these codes by the name of the constant.
    const std::string name = weights.integers->name;
    lowering.graph().RenameValue(weights.integers, name + "_rows");
    weights.integers = lowering.Constant(name, Transposed(config.baked));
  }
  // A constant with one number per channel, in a shape that broadcasts.
  const auto spread = [&](const std::vector<float>& numbers) {
    Shape shape = {static_cast<int64_t>(numbers.size())};
    if (conv) shape.resize(static_cast<size_t>(config.baked.rank()) - 1, 1);
    return Tensor::FromVector(numbers, shape);
  };
  std::vector<float> scales = config.scale;
  for (float& scale : scales) scale *= input.scale;
  const Value* result = node.outputs[0];
  Graph& graph = lowering.graph();
  const std::string& name = result->name;
  const std::string inner = name + "_sums";  // prefix of all values in between; made unique
  const TensorQuantizationConfig* bias =
      op.inputs.size() > 2 && op.inputs[2] >= 0 ? &lowering.Own(op.inputs[2]) : nullptr;
  const bool biased = bias && !bias->baked.empty();
  const AttributeMap attributes = conv ? node.attributes : AttributeMap();
  Value* product = graph.AddValue(biased ? inner : name, result->type);
  if (IsWide(input.dtype)) {
    graph.AddNode(conv ? "QLinearConv16" : "QLinearMatMul16", kRequantDomain,
                  {data, lowering.ScaleOf(input), lowering.ZeroPointOf(input), weights.integers,
                   weights.scale, weights.zero_point},
                  {product}, attributes, node.name);
  } else {
    std::vector<Value*> inputs = {data, weights.integers, lowering.ZeroPointOf(input)};
    if (!config.symmetric()) inputs.push_back(weights.zero_point);
    Value* sums = graph.AddOp(conv ? "ConvInteger" : "MatMulInteger", "", std::move(inputs), inner,
                              {DType::kInt32, result->type.shape}, attributes, node.name);
    AttributeMap to_float;
    to_float.Set("to", static_cast<int64_t>(DType::kFloat32));
    Value* real = graph.AddOp("Cast", "", {sums}, inner, result->type, std::move(to_float));
    graph.AddNode("Mul", "", {real, lowering.Constant(inner, spread(scales))}, {product});
  }
  if (biased) {
    Value* sum = graph.AddValue(name, result->type);
    const Tensor numbers = DequantizeParameter(bias->baked, *bias);
    graph.AddNode("Add", "", {product, lowering.Constant(inner, spread(numbers.ToFloats()))},
                  {sum});
    product = sum;
  }
  lowering.SetFloat(result, product);
}

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
  const bool transposed = node.Is(Op::kConvTranspose);
  lowering.EmitCompute(node, op, transposed ? "QLinearConvTranspose" : "QLinearConv",
                       transposed ? kRequantDomain : "", std::move(inputs), node.attributes);
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
