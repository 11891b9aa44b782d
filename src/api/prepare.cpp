#include "api/prepare.h"

#include "api/late_functions.h"
#include "api/requant.h"

namespace requant {

void Prepare(Graph& graph) {
  for (const auto& node : graph.nodes()) {
    const OpDef* op = node->domain.empty() ? nullptr : FindOp(node->op_type, node->domain);
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
  if (OperatorsLoaded() && HasBodies(graph)) kPrepareBodies(graph);
}

std::shared_ptr<const Graph> PrepareForRun(std::shared_ptr<const Graph> graph) {
  // A graph with no other owner is prepared in place. (Graphs are never made const.)
  auto ready = graph.use_count() == 1 ? std::const_pointer_cast<Graph>(graph)
                                      : std::make_shared<Graph>(graph->Clone());
  graph.reset();
  Prepare(*ready);
  return ready;
}

}  // namespace requant
