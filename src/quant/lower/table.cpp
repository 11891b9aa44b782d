// Lowers functions of one value: to ai.requant::Lut (Lut16 for 16 bits), or to the float operators
// between DequantizeLinear and QuantizeLinear. Both give the same integers, because the table is
// filled by exactly these operators.
#include <map>

#include "quant/assign/table_region.h"
#include "quant/lower/lowering.h"

namespace requant {
namespace {

/// Whether the table maps every code to itself, as a factor does that only changes the scale.
bool IsIdentity(const Tensor& table, const Format& from, const Format& to) {
  if (from.dtype != to.dtype || from.low != to.low || from.high != to.high ||
      table.count() != 256) {
    return false;
  }
  for (int32_t code = from.low; code <= from.high; ++code) {
    const auto pattern = static_cast<uint8_t>(code);
    if (static_cast<const uint8_t*>(table.raw())[pattern] != pattern) return false;
  }
  return true;
}

}  // namespace

void LowerTable(Lowering& lowering, const Node& node, const OperatorQuantization& op) {
  const Value* input = lowering.source().FindValue(op.table_input);
  const Value* output = node.outputs[0];
  const Format from = lowering.FormatOfSlot(op.table_config);
  const Format to = lowering.FormatOfSlot(op.outputs[0]);
  Value* integers = lowering.Integer(input, from);
  if (lowering.use_lut()) {
    const Tensor values = EvaluateRegion(lowering.source(), op, PatternValues(from));
    Tensor table = TableFrom(values, to);
    Value* result = integers;
    // A graph output needs a value of its own, with its own name.
    if (lowering.source().IsOutput(output) || !IsIdentity(table, from, to)) {
      result = lowering.NewInteger(output, to);
      lowering.EmitLut(integers, std::move(table), result, node.name);
    }
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
