#include "passes/rewrite.h"

#include <algorithm>
#include <string_view>

#include "base/str_cat.h"

namespace requant {
namespace {

bool IsUsed(const Graph& graph, const Value* value) {
  return value && (!value->consumers.empty() || graph.IsOutput(value));
}

/// Outputs after the first that may be left out. (For Split, the number of outputs has a meaning.)
bool HasOptionalOutputs(const Node& node) {
  return node.Is(Op::kDropout) || node.Is(Op::kMaxPool) || node.Is(Op::kBatchNormalization) ||
         node.op_type.ends_with("LayerNormalization") || node.op_type == "Attention" ||
         node.op_type == "MultiHeadAttention";
}

}  // namespace

bool CanReplace(const Graph& graph, const Value* from, const Value* to) {
  if (!graph.IsOutput(from)) return true;
  return !graph.IsOutput(to) && !graph.IsInput(to) && !to->is_constant();
}

bool Bypass(Graph& graph, Node* node, Value* to) {
  Value* output = node->outputs[0];
  if (output == nullptr || !CanReplace(graph, output, to)) return false;
  for (size_t slot = 1; slot < node->outputs.size(); ++slot) {
    if (IsUsed(graph, node->outputs[slot])) return false;
  }
  if (to->type.dtype == DType::kUndefined) to->type.dtype = output->type.dtype;
  if (!to->type.shape) to->type.shape = output->type.shape;
  graph.ReplaceAndKeepName(output, to);
  graph.EraseNode(node);
  return true;
}

Node* AppendOp(Graph& graph, Node* node, std::string op_type, std::vector<Value*> more_inputs,
               ValueType between, AttributeMap attributes) {
  Value* output = node->outputs[0];
  Value* middle = graph.AddValue(output->name + "_inner", std::move(between));
  graph.SetOutput(node, 0, middle);
  more_inputs.insert(more_inputs.begin(), middle);
  std::string name = StrCat(node->name, "_", op_type);
  return graph.AddNode(std::move(op_type), "", std::move(more_inputs), {output},
                       std::move(attributes), std::move(name));
}

Value* AddNear(Graph& graph, const Node* near, const char* op_type, std::vector<Value*> inputs,
               const ValueType& type, AttributeMap attributes) {
  return graph.AddOp(op_type, "", std::move(inputs), StrCat(near->name, "_", op_type), type,
                     std::move(attributes));
}

Value* AddNear(Graph& graph, const Node* near, Tensor constant) {
  return graph.AddConstant(StrCat(near->name, "_constant"), std::move(constant));
}

void ReplaceConstant(Graph& graph, Node* node, size_t slot, Tensor tensor, std::string name) {
  Value* old = node->input(slot);
  if (old && old->is_constant() && graph.SoleConsumer(old) == node && !graph.IsInput(old)) {
    old->type = {tensor.dtype(), ToSymbolic(tensor.shape())};
    old->constant = std::move(tensor);
    return;
  }
  graph.SetInput(node, slot, graph.AddConstant(std::move(name), std::move(tensor)));
}

void TruncateInputs(Graph& graph, Node* node, size_t slot) {
  for (size_t i = node->inputs.size(); i > slot; --i) {
    if (i <= node->inputs.size()) graph.SetInput(node, i - 1, nullptr);
  }
}

std::optional<double> ScalarOf(const Value* value) {
  if (value == nullptr || !value->is_constant() || value->constant.count() != 1) return {};
  return value->constant.AsDouble(0);
}

std::optional<double> ScalarOperand(const Value* value, const Value* other) {
  const std::optional<double> scalar = ScalarOf(value);
  if (!scalar || other == nullptr) return {};
  const int64_t rank = value->constant.rank();
  if (rank > 0 && rank > RankOf(other)) return {};
  return scalar;
}

int64_t RankOf(const Value* value) {
  return value && value->type.shape ? static_cast<int64_t>(value->type.shape->size()) : -1;
}

bool IsFloat32(const Value* value) { return value && value->type.dtype == DType::kFloat32; }

bool SameShape(const Value* a, const Value* b) {
  return a->type.shape && b->type.shape && *a->type.shape == *b->type.shape;
}

bool RemoveDeadNodes(Graph& graph) {
  bool changed = false;
  for (size_t i = graph.nodes().size(); i > 0; --i) {
    Node* node = graph.nodes()[i - 1].get();
    const auto used = [&graph](const Value* value) { return IsUsed(graph, value); };
    if (!std::any_of(node->outputs.begin(), node->outputs.end(), used)) {
      graph.EraseNode(node);
      changed = true;
      continue;
    }
    if (!HasOptionalOutputs(*node)) continue;
    while (node->outputs.size() > 1 && !used(node->outputs.back())) {
      if (node->outputs.back()) graph.SetOutput(node, node->outputs.size() - 1, nullptr);
      node->outputs.pop_back();
      changed = true;
    }
  }
  graph.RemoveUnusedValues();
  return changed;
}

}  // namespace requant
