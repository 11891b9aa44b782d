// Functions of one 8-bit value: ai.requant::Lut, or the float operators between DequantizeLinear
// and QuantizeLinear. Both give the same integers, because the table is filled by exactly those
// steps.
#include <map>

#include "quant/lower/lowering.h"
#include "quant/table_region.h"

namespace requant {

void LowerTable(Lowering& lowering, const Node& node, const OperatorQuantization& op) {
  const Value* input = lowering.source().FindValue(op.table_input);
  const Value* output = node.outputs[0];
  const Format from = lowering.FormatOfSlot(op.table_config);
  const Format to = lowering.FormatOfSlot(op.outputs[0]);
  Value* integers = lowering.Integer(input, from);
  if (lowering.use_lut()) {
    Value* result = lowering.NewInteger(output, to);
    const Tensor values = EvaluateRegion(lowering.source(), op, PatternValues(from));
    lowering.EmitLut(integers, TableFrom(values, to), result, node.name);
    lowering.SetInteger(output, result, to);
    return;
  }
  Graph& graph = lowering.graph();
  std::map<const Value*, Value*> made;
  made[input] = lowering.Dequantized(input, integers, from);
  for (const std::string& name : op.table) {
    const Node* member = lowering.source().FindNode(name);
    std::vector<Value*> inputs;
    for (const Value* value : member->inputs) {
      inputs.push_back(value == nullptr       ? nullptr
                       : value->is_constant() ? lowering.Float(value)
                                              : made.at(value));
    }
    const Value* result = member->outputs[0];
    Value* real =
        graph.AddValue(result == output ? result->name + "_raw" : result->name, result->type);
    made[result] = real;
    lowering.CopyNode(*member, std::move(inputs), {real});
  }
  lowering.SetInteger(output, lowering.Quantize(output, made.at(output), to), to);
}

}  // namespace requant
