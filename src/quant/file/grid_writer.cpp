#include "quant/file/grid_writer.h"

#include <algorithm>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/quantized/wide.h"
#include "quant/assign/assign.h"
#include "quant/lower/simulated.h"

namespace requant {

Graph GridWriter::Run() {
  out_.name = graph_.name;
  out_.opsets = graph_.opsets;
  out_.metadata = graph_.metadata;
  Begin();
  for (const Value* input : graph_.inputs()) {
    Value* made = out_.AddValue(input->name, input->type);
    made->constant = input->constant;
    out_.AddInput(made);
    raw_[input] = made;
  }
  for (const auto& node : graph_.nodes()) Write(*node);
  for (const Value* output : graph_.outputs()) out_.AddOutput(ReadFloat(output));
  out_.RemoveUnusedValues();
  return std::move(out_);
}

bool WritesWideCodes(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const auto& node) {
    return node->Is(Op::kQuantizeLinear) && IsWide(node->outputs[0]->type.dtype);
  });
}

void RefuseSimulated(const Graph& graph, const QuantizationRecord& record, const char* format) {
  for (const auto& node : graph.nodes()) {
    const OperatorQuantization* op = record.Find(node->name);
    if (op == nullptr || !op->simulated || !HasExoticGrid(*node, record)) continue;
    Fail(ErrorCode::kUnsupported,
         StrCat("the grid of operator '", node->name, "' cannot be said with ", format),
         {.node = node->name,
          .hint = "use at most 16 bits for activations and 8 for weights, integers, HALF_EVEN and "
                  "one scale for each activation"});
  }
}

Format GridWriter::ProducerFormat(const Value* value) const {
  const OperatorQuantization* op = record_.Find(value->producer->name);
  for (size_t slot = 0; slot < op->outputs.size(); ++slot) {
    if (value->producer->output(slot) == value) return FormatOfSlot(op->outputs[slot]);
  }
  Fail(ErrorCode::kInternal, "a value without a slot", {.value = value->name});
}

Value* GridWriter::Raw(const Value* value) {
  Value*& made = raw_[value];
  if (made == nullptr && value->is_constant()) {
    made = out_.AddConstant(value->name, value->constant);
  }
  if (made == nullptr) {
    Fail(ErrorCode::kInternal, StrCat("value '", value->name, "' was never written"));
  }
  return made;
}

/// The value that float operators and graph outputs read.
Value* GridWriter::ReadFloat(const Value* value) {
  return IsMaterialized(record_, value) ? ReadOnGrid(value, ProducerFormat(value)) : Raw(value);
}

Value* GridWriter::ReadOnGrid(const Value* value, const Format& format) {
  for (const auto& [known, made] : gridded_[value]) {
    if (known == format) return made;
  }
  const bool materialized = IsMaterialized(record_, value);
  const bool own = materialized && ProducerFormat(value) == format;
  Value* real = materialized && !own ? ReadOnGrid(value, ProducerFormat(value)) : Raw(value);
  const bool is_result = own && graph_.IsOutput(value);
  Value* made = Grid(value, real, format, is_result ? value->name : value->name + "_dq");
  gridded_[value].emplace_back(format, made);
  return made;
}

Value* GridWriter::ReadSlot(const Node& node, const OperatorQuantization& op, size_t slot) {
  const Value* value = node.inputs[slot];
  if (value == nullptr) return nullptr;
  const int index = slot < op.inputs.size() ? op.inputs[slot] : -1;
  const bool plain = index < 0 || !IsQuantizing(Own(index).state);
  if (value->is_constant()) {
    const bool in_float =
        plain || Own(index).baked.empty() || InTable(node, op) || op.rule == QuantRule::kPassive;
    return in_float ? Raw(value) : Parameter(value->name, Own(index));
  }
  if (plain) return Raw(value);
  return IsInside(record_, value) ? Raw(value) : ReadOnGrid(value, FormatOfSlot(index));
}

/// Whether a table computes the node, in which case its constants stay floats.
bool GridWriter::InTable(const Node& node, const OperatorQuantization& op) const {
  if (!op.table.empty()) return true;
  if (op.absorbed_by.empty()) return false;
  return record_.Find(op.absorbed_by)->activation != node.name;
}

void GridWriter::Write(const Node& node) {
  const OperatorQuantization* op = record_.Find(node.name);
  std::vector<Value*> inputs, outputs;
  for (size_t slot = 0; slot < node.inputs.size(); ++slot) {
    const Value* value = node.inputs[slot];
    if (op != nullptr && op->quantized) {
      inputs.push_back(ReadSlot(node, *op, slot));
    } else {
      inputs.push_back(value ? ReadFloat(value) : nullptr);
    }
  }
  if (op != nullptr && op->quantized) {
    // Bias correction may have made a bias that the graph does not have.
    const int bias = BiasSlot(node, op->rule);
    const auto slot = static_cast<size_t>(bias);
    if (bias >= 0 && node.input(slot) == nullptr && slot < op->inputs.size() &&
        op->inputs[slot] >= 0 && !Own(op->inputs[slot]).baked.empty()) {
      inputs.resize(std::max(inputs.size(), slot + 1));
      inputs[slot] = Parameter(node.name + "_bias", Own(op->inputs[slot]));
    }
  }
  for (const Value* value : node.outputs) {
    if (value == nullptr) {
      outputs.push_back(nullptr);
      continue;
    }
    const bool hidden = graph_.IsOutput(value) && IsMaterialized(record_, value);
    Value* made = out_.AddValue(hidden ? value->name + "_raw" : value->name, value->type);
    raw_[value] = made;
    outputs.push_back(made);
  }
  out_.AddNode(node.op_type, node.domain, std::move(inputs), std::move(outputs), node.attributes,
               node.name);
}

}  // namespace requant
