#include <algorithm>

#include "base/error.h"
#include "base/operators.h"
#include "base/str_cat.h"
#include "kernels/variant/missing.h"
#include "ops/op.h"
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
    if (row.late && !OperatorsLoaded()) continue;
    if (row.fits != nullptr && !row.fits(node)) continue;
    if (row.lower(builder, node)) return true;
  }
  return false;
}

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

std::shared_ptr<const Plan> CompilePlan(SpecializedModel model, const PlanOptions& options) {
  auto plan = std::make_shared<Plan>();
  plan->graph = std::make_unique<Graph>(std::move(model).Release());
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
  if (!options.force_kernels.empty() && kUnheededForces.loaded()) {
    plan->warnings = kUnheededForces(options.force_kernels, builder.choices());
  }
  builder.NoteGroups();
  builder.ReleaseConstants();
  if (MissingLowBits() == nullptr) kPackActivations(*plan, options);
  LayOutArena(*plan, !options.visit);
  return plan;
}

}  // namespace requant
