// Lowers functions of one 8-bit value: a 256-entry table, whatever the operator computes.
#include "plan/lower/elementwise/lut.h"

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "plan/lower/elementwise/lut_step.h"
#include "plan/lower/rows.h"

namespace requant {

CodeRange CodesOfTable(CodeRange codes, const ByteTable& table, DType dtype) {
  CodeRange image = {255, -128};
  for (int32_t code = codes.lo; code <= codes.hi; ++code) {
    const uint8_t byte = table[static_cast<uint8_t>(code)];
    const int32_t value = dtype == DType::kInt8 ? static_cast<int8_t>(byte) : byte;
    image = Join(image, {value, value});
  }
  return image;
}

Step& AddLutStep(PlanBuilder& builder, const Node& node, const Value* input, const Value* output,
                 const ByteTable& table) {
  const LutKernel& kernel = builder.Choose("lut", LutKernels());
  builder.SetRange(output, CodesOfTable(builder.RangeOf(input), table, output->type.dtype));
  const Layout layout = builder.LayoutOf(input);
  const int from = builder.In(input, layout);
  const int to = builder.Out(output, layout);
  auto& step = builder.Add<LutStep>(node, kernel.name, {from}, {to});
  step.run = kernel.run;
  step.table = table;
  step.codes = builder.RangeOf(input);
  step.makes_signed = output->type.dtype == DType::kInt8;
  step.count = builder.slot(from).bytes;
  DivideElements(builder, step, kernel.run, offsetof(LutParams, cols), step.count, 1, 1);
  step.may_overwrite = true;
  return step;
}

namespace {

/// The table of an operator with one 8-bit input, constants otherwise.
std::optional<ByteTable> TableOf(const PlanBuilder& builder, const Node& node) {
  const auto is_byte = [](const Value* value) {
    return IsByte(value->type.dtype) || value->type.dtype == DType::kBool;
  };
  if (!is_byte(node.inputs[0]) || !is_byte(node.outputs[0]) || node.output(1) ||
      OpOf(builder.graph(), node).fusion != FusionRule::kBroadcast) {
    return std::nullopt;
  }
  ByteTable table;
  if (node.op_type == "Lut") {
    const Tensor* entries = node.constant(1);
    if (entries == nullptr || entries->bytes() != table.size()) return std::nullopt;
    std::memcpy(table.data(), entries->raw(), table.size());
    return table;
  }
  // The reference, evaluated on all 256 values, gives the table.
  Tensor all(node.inputs[0]->type.dtype, {256});
  auto* bytes = static_cast<uint8_t*>(all.raw());
  for (int i = 0; i < 256; ++i) bytes[i] = static_cast<uint8_t>(i);
  std::vector<const Tensor*> inputs{&all};
  for (size_t slot = 1; slot < node.inputs.size(); ++slot) {
    const Tensor* number = node.constant(slot);
    if (node.input(slot) && (number == nullptr || number->count() != 1)) return std::nullopt;
    inputs.push_back(number);
  }
  const std::vector<Tensor> results =
      EvaluateNode(builder.graph(), node, inputs, builder.options().requantize);
  if (results[0].bytes() != table.size()) return std::nullopt;
  std::memcpy(table.data(), results[0].raw(), table.size());
  return table;
}

}  // namespace

bool LowerByteUnary(PlanBuilder& builder, const Node& node) {
  auto table = TableOf(builder, node);
  if (!table) return false;
  std::string op = node.op_type;
  const Value* output = node.outputs[0];
  for (const Node* next = builder.Follower(node); next; next = builder.Follower(*next)) {
    if (next->inputs[0] != output) break;
    const auto after = TableOf(builder, *next);
    if (!after) break;
    for (uint8_t& entry : *table) entry = (*after)[entry];
    builder.Absorb(next, node);
    op += "+" + next->op_type;
    output = next->outputs[0];
  }
  AddLutStep(builder, node, node.inputs[0], output, *table).op = op;
  return true;
}

RQ_STEP(Lut, LutStep)
RQ_STEP(LutBits, LutBitsStep)

}  // namespace requant
