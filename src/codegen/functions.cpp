// Operators on single elements: tables, quantization, clamps; and softmax.
#include <limits>

#include "base/str_cat.h"
#include "codegen/emit.h"
#include "ops/op.h"

namespace requant {
namespace {

/// Writes x -> y by a table of bytes or of floats.
void CallTable(EmitContext& context, const Tensor& table) {
  const bool real = table.dtype() == DType::kFloat32;
  const std::string kernel = real ? "table_float" : "table";
  context.file.Use(kernel);
  const std::string values =
      real ? context.file.Floats(table.ToFloats())
           : context.file.Bytes({static_cast<const uint8_t*>(table.raw()), table.bytes()});
  context.file.Call("rq_" + kernel,
                    Fields() << context.In(0) << context.Out() << context.OutputCount() << values);
}

/// The results of an operator of one 8-bit value (with constant other inputs) for all 256 of them.
Tensor AllResults(const EmitContext& context) {
  const Node& node = context.node;
  Tensor all(context.InputType(0), {256});
  for (int i = 0; i < 256; ++i) static_cast<uint8_t*>(all.raw())[i] = static_cast<uint8_t>(i);
  std::vector<const Tensor*> inputs = {&all};
  for (size_t slot = 1; slot < node.inputs.size(); ++slot) inputs.push_back(node.constant(slot));
  return EvaluateNode(context.graph, node, inputs, context.file.requantize())[0];
}

/// The channels of an axis, and the number of consecutive elements of one channel.
struct Channels {
  int64_t count = 1, inner = 1;
};
Channels ChannelsOf(EmitContext& context, size_t scales) {
  const Shape shape = context.InputShape(0);
  if (scales == 1) return {1, 1};
  if (context.node.attributes.Int("block_size", 0) != 0) {
    context.Unsupported(StrCat(context.node.op_type, " in blocks"));
  }
  const auto axis = static_cast<size_t>(
      NormalizeAxis(context.node.attributes.Int("axis", 1), static_cast<int64_t>(shape.size())));
  return {shape[axis],
          NumElements(Shape(shape.begin() + static_cast<ptrdiff_t>(axis) + 1, shape.end()))};
}

std::vector<int32_t> ZerosFor(const QuantOperand& operand) {
  std::vector<int32_t> zeros = operand.zeros;
  zeros.resize(operand.scales.size(), operand.zeros[0]);
  return zeros;
}

}  // namespace

void EmitLut(EmitContext& context) { CallTable(context, context.Constant(1)); }

void EmitQuantizeLinear(EmitContext& context) {
  context.RequireFloat(0);
  if (!IsByte(context.OutputType())) {
    context.Unsupported(StrCat("QuantizeLinear to ", DTypeName(context.OutputType())));
  }
  const QuantOperand to = context.Operand(1, 2);
  const Channels channels = ChannelsOf(context, to.scales.size());
  context.file.Use("quantize");
  const Fields members = Fields() << context.OutputCount() << channels.count << channels.inner
                                  << ByteMin(context.OutputType()) << ByteMax(context.OutputType())
                                  << context.file.Floats(to.scales)
                                  << context.file.Ints(ZerosFor(to));
  context.Call("rq_quantize_run", "rq_quantize", members);
}

void EmitDequantizeLinear(EmitContext& context) {
  context.RequireByte(0);
  if (context.OutputType() != DType::kFloat32) {
    context.Unsupported(StrCat("DequantizeLinear to ", DTypeName(context.OutputType())));
  }
  const QuantOperand from = context.Operand(1, 2);
  const Channels channels = ChannelsOf(context, from.scales.size());
  std::vector<int32_t> zeros = ZerosFor(from);
  for (int32_t& zero : zeros) zero = ReadingOf(context.InputType(0), zero).zero;
  context.file.Use("dequantize");
  const Fields members = Fields() << context.OutputCount() << channels.count << channels.inner
                                  << ReadingOf(context.InputType(0), 0).flip
                                  << context.file.Floats(from.scales) << context.file.Ints(zeros);
  context.Call("rq_dequantize_run", "rq_dequantize", members);
}

void EmitCast(EmitContext& context) {
  if (context.OutputType() != DType::kFloat32) {
    context.Unsupported(StrCat("Cast to ", DTypeName(context.OutputType())));
  }
  if (IsByte(context.InputType(0))) return CallTable(context, AllResults(context));
  if (context.InputType(0) != DType::kInt32) {
    context.Unsupported(StrCat("Cast of ", DTypeName(context.InputType(0))));
  }
  context.file.Use("cast_float");
  context.file.Call("rq_cast_float",
                    Fields() << context.IntIn(0) << context.Out() << context.OutputCount());
}

void EmitClamp(EmitContext& context) {
  const Node& node = context.node;
  for (size_t slot = 1; slot < node.inputs.size(); ++slot) {
    if (context.has(slot)) context.Constant(slot);
  }
  if (IsByte(context.InputType(0))) return CallTable(context, AllResults(context));
  context.RequireFloat(0);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto bound = [&](const char* attribute, size_t slot, float fallback) {
    const Tensor* constant = node.constant(slot);
    return constant && constant->count() > 0 ? constant->ToFloats()[0]
                                             : node.attributes.Float(attribute, fallback);
  };
  const bool relu = node.Is(Op::kRelu);
  const float lo = relu ? 0 : bound("min", 1, -kInfinity);
  const float hi = relu ? kInfinity : bound("max", 2, kInfinity);
  context.file.Use("clamp");
  context.file.Call("rq_clamp", Fields() << context.In(0) << context.Out() << context.OutputCount()
                                         << CFloat(lo) << CFloat(hi));
}

void EmitSoftmax(EmitContext& context) {
  context.RequireFloat(0);
  const Shape shape = context.OutputShape();
  // Softmax works on all axes from that one on together
  const bool flat = context.graph.opset() < 13;
  const auto axis = static_cast<ptrdiff_t>(NormalizeAxis(
      context.node.attributes.Int("axis", flat ? 1 : -1), static_cast<int64_t>(shape.size())));
  const auto begin = shape.begin();
  const auto end = flat ? shape.end() : begin + axis + 1;
  context.file.Use("softmax");
  context.file.Call("rq_softmax", Fields() << context.In(0) << context.Out()
                                           << NumElements(Shape(begin, begin + axis))
                                           << NumElements(Shape(begin + axis, end))
                                           << NumElements(Shape(end, shape.end())));
}

}  // namespace requant
