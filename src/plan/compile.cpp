#include <algorithm>

#include "base/error.h"
#include "base/operators.h"
#include "base/str_cat.h"
#include "kernels/variant/missing.h"
#include "ops/op.h"
#include "passes/runner.h"
#include "plan/arena.h"
#include "plan/builder.h"
#include "plan/lower/table.h"
#include "plan/pack_activations.h"
#include "plan/plan.h"

namespace requant {
namespace {

/// Lowers a node by the first row that can; returns false when there is none.
bool LowerByTable(PlanBuilder& builder, const Node& node) {
  for (const LowerRow& row : LowerTable()) {
    if (node.op_type != row.op || node.domain != row.domain) continue;
    const bool fits = row.fits == nullptr || (OperatorsLoaded() && row.fits(node));
    if (fits && row.lower(builder, node)) return true;
  }
  return false;
}

}  // namespace

bool IsPlannable(const Node& node) {
  if (node.has_subgraph()) return false;
  return std::all_of(node.outputs.begin(), node.outputs.end(), [](const Value* output) {
    return output == nullptr ||
           (output->type.IsStatic() && output->type.dtype != DType::kUndefined);
  });
}

bool IsStatic(const Graph& graph) {
  return std::all_of(graph.nodes().begin(), graph.nodes().end(),
                     [](const auto& node) { return IsPlannable(*node); });
}

std::unique_ptr<Graph> SpecializeGraph(std::shared_ptr<const Graph> graph,
                                       const std::vector<Shape>& input_shapes) {
  size_t next = 0;
  bool known = true;  // whether the graph was made for these shapes
  for (const Value* input : graph->inputs()) {
    if (!input->is_constant())
      known = known && input->type.shape == ToSymbolic(input_shapes.at(next++));
  }
  known = known && IsStatic(*graph);
  // The only owner hands the graph over: it becomes the plan's without a copy. (Graphs are never
  // made const.)
  auto copy = known && graph.use_count() == 1
                  ? std::make_unique<Graph>(std::move(*std::const_pointer_cast<Graph>(graph)))
                  : std::make_unique<Graph>(graph->Clone());
  graph.reset();
  if (!known) {
    next = 0;
    for (Value* input : copy->inputs()) {
      if (!input->is_constant()) input->type.shape = ToSymbolic(input_shapes[next++]);
    }
    // Declared types of the other values may have symbols whose numbers are known now.
    for (const auto& value : copy->values()) {
      if (value->producer) value->type.shape.reset();
    }
    for (const auto& node : copy->nodes()) node->typed = false;
  }
  PipelineOptions options;
  // A branch that is taken brings nodes that no pass has seen.
  const bool branches = std::any_of(copy->nodes().begin(), copy->nodes().end(),
                                    [](const auto& node) { return node->has_subgraph(); });
  if (branches) RunPasses(*copy);
  options.only = {"InferType", "FoldConstant", "DynamicToStatic", "DeadCodeElimination", "FuseOps"};
  // Numbers of heads, and masks, that depended on open lengths are known now.
  if (!known) options.only.emplace_back("FuseAttention");
  RunPasses(*copy, options);
  return copy;
}

namespace {

/// Computes the nodes that no pass may fold because they say how a file is quantized (weights
/// behind DequantizeLinear, Quant, packed bits). A plan is only run, so they can be folded here.
void FoldForRun(Graph& graph) {
  for (size_t i = 0; i < graph.nodes().size();) {
    Node* node = graph.nodes()[i].get();
    const auto is_constant = [](const Value* value) {
      return value == nullptr || value->is_constant();
    };
    const auto stays = [&graph](const Value* value) { return value && graph.IsOutput(value); };
    if (node->inputs.empty() ||
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

}  // namespace

std::shared_ptr<const Plan> CompilePlan(Graph graph, const PlanOptions& options) {
  auto plan = std::make_shared<Plan>();
  plan->graph = std::make_unique<Graph>(std::move(graph));
  FoldForRun(*plan->graph);
  plan->threads = std::max(options.threads, 1);
  PlanBuilder builder(*plan, options);
  for (const auto& node : plan->graph->nodes()) {
    if (builder.IsAbsorbed(node.get())) continue;
    builder.Begin(*node);
    try {
      if (!LowerByTable(builder, *node)) LowerByReference(builder, *node);
      builder.ReleaseConstants(*node);
    } catch (Error& error) {
      error.AddNode(node->name);
      throw;
    }
  }
  for (const Value* output : plan->graph->outputs()) {
    plan->outputs.push_back(
        builder.In(output, options.visit ? builder.LayoutOf(output) : Layout::kPlain));
  }
  if (!options.force_kernels.empty() && OperatorsLoaded()) {
    plan->warnings = kUnheededForces(options.force_kernels, builder.choices());
  }
  builder.NoteGroups();
  builder.ReleaseConstants();
  if (MissingLowBits() == nullptr) kPackActivations(*plan, options);
  LayOutArena(*plan, !options.visit);
  return plan;
}

}  // namespace requant
