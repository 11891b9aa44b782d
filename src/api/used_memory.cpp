// AnnotateUsedMemory
// Before: a graph
// After:  the same graph, in which every node says how many bytes of intermediate values are in
//   memory while it runs (Node::used_bytes, in the text form "uses N"). A node that runs as part of
//   another one has that one's number; one that costs nothing (Reshape) the number of the one
//   before it.
// Conditions: all shapes are known, and there is no control flow.
// Formula: the graph is planned as for a run. A step uses what is alive between its inputs' last
//   and its outputs' first use, its workspace included, each rounded up to the arena's alignment of
//   64 bytes. The largest number is the size of the arena wherever the planner reaches its lower
//   bound, as it does for every network of the tests.
#include <algorithm>

#include "api/passes.h"
#include "plan/plan.h"

namespace requant {

bool AnnotateUsedMemory(Graph& graph, PassContext&) {
  std::vector<Shape> shapes;
  for (const Value* input : graph.inputs()) {
    if (input->is_constant()) continue;
    if (!input->type.IsStatic()) return false;
    shapes.push_back(input->type.StaticShape());
  }
  SpecializedModel ready = Specialize(PreparedModel::AsIs(graph.Clone()), shapes);
  if (!ready.is_static()) return false;
  for (const auto& node : ready.graph().nodes()) node->used_bytes = -1;
  const std::shared_ptr<const Plan> plan = CompilePlan(std::move(ready), {});
  for (size_t i = 0; i < plan->steps.size(); ++i) {
    Node* node = plan->graph->FindNode(plan->steps[i]->name);
    if (node)
      node->used_bytes = std::max(node->used_bytes, static_cast<int64_t>(plan->used_memory[i]));
  }
  bool changed = false;
  int64_t last = plan->used_memory.empty() ? 0 : static_cast<int64_t>(plan->used_memory[0]);
  for (const auto& node : graph.nodes()) {
    const Node* planned = plan->graph->FindNode(node->name);
    if (planned && planned->used_bytes < 0) planned = plan->graph->FindNode(planned->group);
    if (planned && planned->used_bytes >= 0) last = planned->used_bytes;
    changed = changed || node->used_bytes != last;
    node->used_bytes = last;
  }
  return changed;
}

std::span<const Pass> ApiPasses() {
  // The bound 0.01: an integer accumulator is exact where a float sum is rounded, so a result may
  // be a step away, and a step is up to 1/255 of a tensor's range.
  static constexpr Pass kPasses[] = {
      {"Legalize", "8-bit operators between Q/DQ pairs become integer operators", 0.01,
       PassRole::kByName, Legalize},
      {"AnnotateUsedMemory", "bytes of memory in use at every operator, before running", 0,
       PassRole::kByName, AnnotateUsedMemory},
  };
  return kPasses;
}

}  // namespace requant
