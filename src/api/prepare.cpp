#include "api/prepare.h"

#include <algorithm>
#include <utility>

#include "api/late_functions.h"
#include "api/passes.h"
#include "passes/runner.h"

namespace requant {

void Prepare(Graph& graph) {
  for (const auto& node : graph.nodes()) {
    const OpDef* op = node->domain.empty() ? nullptr : FindOp(*node);
    if (op == nullptr || op->rewrite == nullptr) continue;
    op->rewrite(graph);
    break;
  }
  // Packed weights must not be folded into floats.
  PipelineOptions packing;
  packing.only = {"PackBlockedWeights"};
  if (HasBlockedWeights(graph)) RunPasses(graph, packing);
  RunPasses(graph, {});
  PassContext context;
  if (Legalize(graph, context)) RunPasses(graph, {});
  if (kPrepareBodies.loaded() && HasBodies(graph)) kPrepareBodies(graph);
}

PreparedModel PrepareForRun(Graph&& graph) {
  Prepare(graph);
  return PreparedModel::Settled(std::move(graph));
}

std::vector<const OpDef*> OperatorsOf(const Graph& graph) {
  std::vector<const OpDef*> operators;
  const auto add = [&operators](const OpDef* op) {
    const bool known = std::find(operators.begin(), operators.end(), op) != operators.end();
    if (op != nullptr && !known) operators.push_back(op);
  };
  for (const auto& node : graph.nodes()) add(FindOp(*node));
  return operators;
}

bool NeedsRaising(const Graph& graph) { return graph.opset() < 13 && HasQdq(graph); }

FloatModel OptimizedFloat(const Graph& graph) {
  Graph copy = graph.Clone();
  RunPasses(copy, {});
  return FloatModel(std::move(copy));
}

}  // namespace requant
