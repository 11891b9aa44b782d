// Lowers operators that move or select values: they work on the integers themselves.
#include "ops/quantized/wide.h"
#include "quant/lower/lowering.h"

namespace requant {

void LowerPassive(Lowering& lowering, const Node& node, const OperatorQuantization& op) {
  const Format format = lowering.FormatOfSlot(op.inputs[0]);
  std::vector<Value*> inputs = {lowering.IntegerInput(node, op, 0)};
  for (size_t slot = 1; slot < node.inputs.size(); ++slot) {
    const Value* value = node.inputs[slot];
    if (value == nullptr) {
      inputs.push_back(nullptr);
    } else if (op.inputs[slot] >= 0 && !lowering.Own(op.inputs[slot]).baked.empty()) {
      inputs.push_back(lowering.Constant(value->name + "_q", lowering.Own(op.inputs[slot]).baked));
    } else {
      inputs.push_back(lowering.Float(value));
    }
  }
  // A Pad with zeros becomes one with the zero point.
  if (node.Is(Op::kPad) && node.attributes.String("mode", "constant") == "constant" &&
      node.input(2) == nullptr) {
    if (inputs.size() < 3) inputs.resize(3);
    inputs[2] = lowering.ZeroPointOf(format);
  }
  std::vector<Value*> outputs;
  for (const Value* value : node.outputs) {
    outputs.push_back(value ? lowering.NewInteger(value, format) : nullptr);
  }
  Node* made = lowering.CopyNode(node, std::move(inputs), outputs);
  if (IsWide(format.dtype) && node.op_type.ends_with("MaxPool")) {
    made->Retype(node.op_type + "16", kRequantDomain);
  }
  for (size_t slot = 0; slot < node.outputs.size(); ++slot) {
    const Value* value = node.outputs[slot];
    if (value == nullptr) continue;
    const Format wanted = lowering.FormatOfSlot(op.outputs[slot]);
    Value* integers = outputs[slot];
    // Input and output differ only if a file with Q/DQ pairs says so.
    if (!(wanted == format)) integers = lowering.Requantize(value, integers, format, wanted);
    lowering.SetInteger(value, integers, wanted);
  }
}

}  // namespace requant
