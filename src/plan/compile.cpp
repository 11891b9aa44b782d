#include <algorithm>

#include "base/error.h"
#include "base/str_cat.h"
#include "passes/runner.h"
#include "plan/arena.h"
#include "plan/builder.h"
#include "plan/lower/table.h"
#include "plan/plan.h"

namespace requant {
namespace {

const LowerRow* FindRow(const Node& node) {
  for (const LowerRow& row : LowerTable()) {
    if (node.op_type == row.op && node.domain == row.domain) return &row;
  }
  return nullptr;
}

}  // namespace

std::unique_ptr<Graph> SpecializeGraph(const Graph& graph, const std::vector<Shape>& input_shapes) {
  auto copy = std::make_unique<Graph>(graph.Clone());
  size_t next = 0;
  for (Value* input : copy->inputs()) {
    if (input->is_constant()) continue;
    input->type.shape = ToSymbolic(input_shapes.at(next++));
  }
  // Declared types of the other values may hold symbols that now have numbers.
  for (const auto& value : copy->values()) {
    if (value->producer) value->type.shape.reset();
  }
  PipelineOptions options;
  options.only = {"InferType", "FoldConstant", "DynamicToStatic", "DeadCodeElimination", "FuseOps"};
  RunPasses(*copy, options);
  for (const auto& node : copy->nodes()) {
    for (const Value* output : node->outputs) {
      if (output && (!output->type.IsStatic() || output->type.dtype == DType::kUndefined)) {
        return nullptr;
      }
    }
  }
  return copy;
}

std::shared_ptr<const Plan> CompilePlan(Graph graph, const PlanOptions& options) {
  auto plan = std::make_shared<Plan>();
  plan->graph = std::make_unique<Graph>(std::move(graph));
  plan->threads = std::max(options.threads, 1);
  PlanBuilder builder(*plan, options);
  for (const auto& node : plan->graph->nodes()) {
    if (builder.IsAbsorbed(node.get())) continue;
    try {
      const LowerRow* row = FindRow(*node);
      if (row == nullptr || !row->lower(builder, *node)) LowerByReference(builder, *node);
      builder.ReleaseConstants(*node);
    } catch (Error& error) {
      error.AddNode(node->name);
      throw;
    }
  }
  for (const Value* output : plan->graph->outputs()) plan->outputs.push_back(builder.In(output));
  builder.ReleaseConstants();
  LayOutArena(*plan);
  return plan;
}

}  // namespace requant
