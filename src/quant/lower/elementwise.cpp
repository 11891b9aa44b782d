// Lowers Add, Sub, Mul and Concat.
#include "quant/grid/affine.h"
#include "quant/lower/lowering.h"

namespace requant {
namespace {

struct Operand {
  Value* integers;
  Format format;
};

Operand ReadOperand(Lowering& lowering, const Node& node, const OperatorQuantization& op,
                    size_t slot) {
  const int index = op.inputs[slot];
  const TensorQuantizationConfig& own = lowering.Own(index);
  const Format format = own.baked.empty() ? lowering.FormatOfSlot(index) : FormatOf(own);
  return {lowering.IntegerInput(node, op, slot), format};
}

/// Negates the operand exactly: with q' = lo + hi - q and z' = lo + hi - z, q' - z' = -(q - z) for
/// every code.
Operand Negated(Lowering& lowering, const Node& node, const Operand& operand) {
  const auto mirror =
      static_cast<int32_t>(StorageMin(operand.format.dtype) + StorageMax(operand.format.dtype));
  Format format = operand.format;
  format.offset = mirror - format.offset;
  format.low = mirror - operand.format.high;
  format.high = mirror - operand.format.low;
  const std::string name = node.name + "_negated";
  if (operand.integers->is_constant()) {
    Tensor flipped = operand.integers->constant.Clone();
    auto* bytes = static_cast<uint8_t*>(flipped.raw());
    for (int64_t i = 0; i < flipped.count(); ++i)
      bytes[i] = static_cast<uint8_t>(mirror - bytes[i]);
    return {lowering.Constant(name, std::move(flipped)), format};
  }
  Graph& graph = lowering.graph();
  Value* result = graph.AddValue(name + "_q", operand.integers->type);
  if (lowering.use_lut()) {
    Tensor values = PatternValues(operand.format);
    for (int64_t i = 0; i < values.count(); ++i) values.data<float>()[i] *= -1;
    lowering.EmitLut(operand.integers, TableFrom(values, format), result, name);
    return {result, format};
  }
  Value* real = lowering.Dequantized(node.inputs[1], operand.integers, operand.format);
  Value* negative = graph.AddOp("Neg", "", {real}, name, real->type, {}, name);
  graph.AddNode("QuantizeLinear", "",
                {negative, lowering.ScaleOf(format), lowering.ZeroPointOf(format)}, {result}, {},
                name + "_quantize");
  return {result, format};
}

void EmitBinary(Lowering& lowering, const Node& node, const OperatorQuantization& op,
                const char* name, const Operand& a, const Operand& b) {
  const Format output = lowering.FormatOfSlot(op.outputs[0]);
  lowering.EmitCompute(node, op, name, kMicrosoftDomain,
                       {a.integers, lowering.ScaleOf(a.format), lowering.ZeroPointOf(a.format),
                        b.integers, lowering.ScaleOf(b.format), lowering.ZeroPointOf(b.format),
                        lowering.ScaleOf(output), lowering.ZeroPointOf(output)});
}

}  // namespace

/// Lowers Sub of 8 bits to the sum with the negated operand, as com.microsoft has no QLinearSub.
void LowerSum(Lowering& lowering, const Node& node, const OperatorQuantization& op) {
  const Operand a = ReadOperand(lowering, node, op, 0);
  Operand b = ReadOperand(lowering, node, op, 1);
  const bool wide = lowering.UsesWide(op);
  if (node.Is(Op::kSub) && !wide) b = Negated(lowering, node, b);
  EmitBinary(lowering, node, op, node.Is(Op::kSub) && wide ? "QLinearSub" : "QLinearAdd", a, b);
}

void LowerProduct(Lowering& lowering, const Node& node, const OperatorQuantization& op) {
  EmitBinary(lowering, node, op, "QLinearMul", ReadOperand(lowering, node, op, 0),
             ReadOperand(lowering, node, op, 1));
}

void LowerConcat(Lowering& lowering, const Node& node, const OperatorQuantization& op) {
  const Format output = lowering.FormatOfSlot(op.outputs[0]);
  std::vector<Operand> operands;
  bool same = true;
  for (size_t slot = 0; slot < node.inputs.size(); ++slot) {
    operands.push_back(ReadOperand(lowering, node, op, slot));
    same = same && operands.back().format == output;
  }
  std::vector<Value*> inputs;
  if (!same) inputs = {lowering.ScaleOf(output), lowering.ZeroPointOf(output)};
  for (const Operand& operand : operands) {
    inputs.push_back(operand.integers);
    if (same) continue;
    inputs.push_back(lowering.ScaleOf(operand.format));
    inputs.push_back(lowering.ZeroPointOf(operand.format));
  }
  lowering.EmitCompute(node, op, same ? "Concat" : "QLinearConcat", same ? "" : kMicrosoftDomain,
                       std::move(inputs), node.attributes);
}

}  // namespace requant
