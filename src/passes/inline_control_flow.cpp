// InlineControlFlow
// Before: If(constant, ...); bodies of If, Loop and Scan that capture constants.
// After:  the nodes of the branch taken; bodies that own those constants.
// Conditions: a condition with one element.
#include <map>

#include "ops/subgraph.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace requant {
namespace {

/// Copies the body's nodes behind the last node; returns what its outputs are now.
std::vector<Value*> CopyBody(Graph& graph, const Graph& body, std::span<Value* const> captured) {
  std::map<const Value*, Value*> twin;
  size_t next = 0;
  for (const Value* input : body.inputs()) {
    if (!input->is_constant()) twin[input] = captured[next++];
  }
  for (const auto& value : body.values()) {
    if (twin.contains(value.get())) continue;
    Value*& made = twin[value.get()];
    made = value->is_constant() ? graph.AddConstant(value->name, value->constant)
                                : graph.AddValue(value->name, value->type);
  }
  const auto translate = [&twin](const std::vector<Value*>& list) {
    std::vector<Value*> out;
    for (const Value* value : list) out.push_back(value ? twin.at(value) : nullptr);
    return out;
  };
  for (const auto& node : body.nodes()) {
    graph.AddNode(node->op_type, node->domain, translate(node->inputs), translate(node->outputs),
                  node->attributes, node->name);
  }
  return translate(body.outputs());
}

bool InlineIf(Graph& graph, Node* node) {
  if (!node->Is("If")) return false;
  const std::optional<double> condition = ScalarOf(node->input(0));
  if (!condition) return false;
  const Graph* yes = node->attributes.GraphValue("then_branch");
  const Graph* no = node->attributes.GraphValue("else_branch");
  if (yes == nullptr || no == nullptr) return false;
  const Graph& body = *condition != 0 ? *yes : *no;
  size_t from = node->formal_inputs();
  for (const auto& [name, value] : node->attributes.entries()) {
    const auto* other = std::get_if<Subgraph>(&value);
    if (other == nullptr) continue;
    if (other->get() == &body) break;
    from += (*other)->captured;
  }
  if (from + body.captured > node->inputs.size()) return false;
  const std::vector<Value*> results =
      CopyBody(graph, body, {node->inputs.data() + from, body.captured});
  for (size_t i = 0; i < node->outputs.size(); ++i) {
    Value* output = node->outputs[i];
    if (output == nullptr) continue;
    Value* result = results[i];
    if (!CanReplace(graph, output, result)) {
      result = graph.AddOp("Identity", "", {result}, output->name, result->type);
    }
    graph.ReplaceAndKeepName(output, result);
  }
  graph.EraseNode(node);
  return true;
}

}  // namespace

bool InlineControlFlow(Graph& graph, PassContext&) {
  bool changed = SinkConstants(graph);
  for (size_t i = 0; i < graph.nodes().size();) {
    if (InlineIf(graph, graph.nodes()[i].get())) {
      changed = true;
    } else {
      ++i;
    }
  }
  if (changed) {
    graph.SortTopologically();
    RemoveDeadNodes(graph);
  }
  return changed;
}

}  // namespace requant
