// Lowers AveragePool, GlobalAveragePool and ReduceMean over space to com.microsoft's QLinear pools.
#include "quant/lower/lowering.h"

namespace requant {

void LowerAverage(Lowering& lowering, const Node& node, const OperatorQuantization& op) {
  const Format input = lowering.FormatOfSlot(op.inputs[0]);
  const Format output = lowering.FormatOfSlot(op.outputs[0]);
  const std::vector<Value*> inputs = {lowering.IntegerInput(node, op, 0), lowering.ScaleOf(input),
                                      lowering.ZeroPointOf(input), lowering.ScaleOf(output),
                                      lowering.ZeroPointOf(output)};
  AttributeMap attributes;
  if (node.Is(Op::kAveragePool)) {
    attributes = node.attributes;
    attributes.Remove("dilations");  // all are 1
    attributes.Set("channels_last", int64_t{0});
    lowering.EmitCompute(node, op, "QLinearAveragePool", kMicrosoftDomain, inputs,
                         std::move(attributes));
    return;
  }
  attributes.Set("channels_last", int64_t{0});
  if (node.op_type != "ReduceMean" || node.attributes.Int("keepdims", 1) != 0) {
    lowering.EmitCompute(node, op, "QLinearGlobalAveragePool", kMicrosoftDomain, inputs,
                         std::move(attributes));
    return;
  }
  // A ReduceMean without keepdims drops the spatial dimensions: a Reshape to [N, C] copies N and C.
  Graph& graph = lowering.graph();
  const SymbolicShape& shape = *node.inputs[0]->type.shape;
  SymbolicShape pooled_shape(shape.size(), Dim(1));
  pooled_shape[0] = shape[0];
  pooled_shape[1] = shape[1];
  const bool wide = lowering.UsesWide(op);
  Value* pooled = graph.AddOp(wide ? "QLinearGlobalAveragePool16" : "QLinearGlobalAveragePool",
                              wide ? kRequantDomain : kMicrosoftDomain, inputs,
                              node.outputs[0]->name + "_pooled_q", {output.dtype, pooled_shape},
                              std::move(attributes), node.name);
  Value* result = lowering.NewInteger(node.outputs[0], output);
  Value* wanted = lowering.Constant(node.name + "_shape", Tensor::Vector<int64_t>({0, 0}));
  graph.AddNode("Reshape", "", {pooled, wanted}, {result}, {}, node.name + "_flatten");
  lowering.SetInteger(node.outputs[0], lowering.Limited(node.outputs[0], result, output), output);
}

}  // namespace requant
