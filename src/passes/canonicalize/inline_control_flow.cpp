// InlineControlFlow
// Before: If(constant, ...); bodies of If, Loop and Scan that capture constants; operators that are
//   defined by others (OpDef::expand: com.microsoft::BiasGelu, MatMulIntegerToFloat, ...)
// After:  the nodes of the branch taken; bodies that own those constants; the nodes of the
//   definition
// Conditions: a condition with one element; known ranks where the definition depends on them.
// Formula: If(true, a, b) = a; a captured value is the value itself; f(x) is its definition.
#include <map>

#include "base/str_cat.h"
#include "ops/control/subgraph.h"
#include "ops/op.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace requant {
namespace {

/// Copies the body's nodes behind the last node and returns the values that its outputs have
/// become. The nodes are named by their operator below `owner`, or keep their names without one.
std::vector<Value*> CopyBody(Graph& graph, const Graph& body, std::span<Value* const> captured,
                             const std::string& owner) {
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
                  node->attributes, owner.empty() ? node->name : StrCat(owner, "/", node->op_type));
    graph.opsets.emplace(node->domain, body.opset(node->domain));
  }
  return translate(body.outputs());
}

/// Makes everybody read the results instead of the node's outputs and erases the node.
void Replace(Graph& graph, Node* node, const std::vector<Value*>& results) {
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
}

bool InlineIf(Graph& graph, Node* node) {
  if (!node->Is(Op::kIf)) return false;
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
      CopyBody(graph, body, {node->inputs.data() + from, body.captured}, "");
  Replace(graph, node, results);
  return true;
}

bool InlineFunction(Graph& graph, Node* node) {
  if (node->Is(Op::kFastGelu) && node->input(1)) {
    Value* sum = graph.AddOp("Add", "", {node->inputs[0], node->inputs[1]}, node->name + "_biased",
                             node->inputs[0]->type);
    graph.SetInput(node, 0, sum);
    TruncateInputs(graph, node, 1);
    return true;
  }
  const OpDef* op = FindOp(*node);
  if (op == nullptr || op->expand == nullptr) return false;
  const std::unique_ptr<Graph> body = op->expand(graph, *node);
  if (!body) return false;
  std::vector<Value*> inputs;
  for (Value* input : node->inputs) {
    if (input) inputs.push_back(input);
  }
  Replace(graph, node, CopyBody(graph, *body, inputs, node->name));
  return true;
}

}  // namespace

bool InlineControlFlow(Graph& graph, PassContext&) {
  const bool sunk = SinkConstants(graph);
  const bool inlined = RewriteNodes(
      graph, [](Graph& g, Node* node) { return InlineIf(g, node) || InlineFunction(g, node); });
  return sunk || inlined;
}

}  // namespace requant
