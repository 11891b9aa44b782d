#include "plan/stages.h"

#include <algorithm>
#include <cstddef>

#include "ops/op.h"
#include "passes/runner.h"
#include "passes/shape/resolve_shapes.h"

namespace requant {
namespace {

/// Whether the graph's inputs are declared with these shapes.
bool IsMadeFor(const Graph& graph, const std::vector<Shape>& input_shapes) {
  size_t next = 0;
  return std::all_of(graph.inputs().begin(), graph.inputs().end(), [&](const Value* input) {
    return input->is_constant() || input->type.shape == ToSymbolic(input_shapes.at(next++));
  });
}

void SetInputShapes(Graph& graph, const std::vector<Shape>& input_shapes) {
  size_t next = 0;
  for (Value* input : graph.inputs()) {
    if (!input->is_constant()) input->type.shape = ToSymbolic(input_shapes.at(next++));
  }
  // Declared types of the other values may have symbols whose numbers are known now.
  for (const auto& value : graph.values()) {
    if (value->producer) value->type.shape.reset();
  }
  for (const auto& node : graph.nodes()) node->typed = false;
}

/// Fuses attention whose number of heads or mask depended on an open length. Returns whether it
/// found any.
bool FuseAttentionNow(Graph& graph, bool for_plan) {
  PipelineOptions options;
  options.only = {"FuseAttention"};
  options.for_plan = for_plan;
  options.max_rounds = 1;
  return RunPasses(graph, options).passes.front().changed;
}

bool IsStatic(const Graph& graph) {
  return std::all_of(graph.nodes().begin(), graph.nodes().end(),
                     [](const auto& node) { return IsPlannable(*node); });
}

}  // namespace

bool IsPlannable(const Node& node) {
  if (node.has_subgraph()) return false;
  return std::all_of(node.outputs.begin(), node.outputs.end(), [](const Value* output) {
    return output == nullptr ||
           (output->type.IsStatic() && output->type.dtype != DType::kUndefined);
  });
}

void FoldForRun(Graph& graph) {
  for (size_t i = 0; i < graph.nodes().size();) {
    Node* node = graph.nodes()[i].get();
    const auto is_constant = [](const Value* value) {
      return value == nullptr || value->is_constant();
    };
    const auto stays = [&graph](const Value* value) { return value && graph.IsOutput(value); };
    if (node->inputs.empty() || node->has_subgraph() || IsRandom(*node) ||
        !std::all_of(node->inputs.begin(), node->inputs.end(), is_constant) ||
        std::any_of(node->outputs.begin(), node->outputs.end(), stays)) {
      ++i;
      continue;
    }
    std::vector<const Tensor*> inputs;
    for (const Value* input : node->inputs) inputs.push_back(input ? &input->constant : nullptr);
    std::vector<Tensor> results = EvaluateNode(graph, *node, inputs, RequantizeMode::kFloat);
    std::vector<std::pair<Value*, size_t>> used;
    for (size_t k = 0; k < results.size(); ++k) {
      if (Value* output = node->outputs[k]; output && !output->consumers.empty()) {
        used.emplace_back(output, k);
      }
    }
    if (used.empty()) {
      ++i;
      continue;
    }
    // The last output takes the node with it.
    for (const auto& [output, k] : used) graph.MakeConstant(output, std::move(results[k]));
  }
  graph.RemoveUnusedValues();
}

void PreparedModel::FoldConstants() { FoldForRun(graph_); }

bool SpecializedModel::is_static() const { return IsStatic(graph_); }

SpecializedModel Specialize(PreparedModel model, const std::vector<Shape>& input_shapes,
                            Reader reader) {
  const bool settled = model.settled();
  Graph graph = std::move(model).Release();
  const bool known = IsMadeFor(graph, input_shapes) && IsStatic(graph);
  if (!known) SetInputShapes(graph, input_shapes);
  // A branch that is taken brings nodes that no pass has seen.
  const bool branches = std::any_of(graph.nodes().begin(), graph.nodes().end(),
                                    [](const auto& node) { return node->has_subgraph(); });
  if (branches) RunPasses(graph);
  PipelineOptions options;
  options.only = {"FuseOps"};
  options.for_plan = reader == Reader::kPlan;
  const bool resolved = !known && !branches && ResolveShapes(graph);
  if (resolved && !FuseAttentionNow(graph, options.for_plan)) {
    // One walk has done what the passes below reach in several rounds.
    RunPasses(graph, options);
    return SpecializedModel(std::move(graph));
  }
  if (!known || !settled) {
    options.only = {"InferType", "FoldConstant", "DynamicToStatic", "DeadCodeElimination",
                    "FuseOps"};
  }
  // Numbers of heads, and masks, that depended on open lengths are known now; plans have forms of
  // attention that files do not.
  if (!known || options.for_plan) options.only.emplace_back("FuseAttention");
  RunPasses(graph, options);
  return SpecializedModel(std::move(graph));
}

}  // namespace requant
