// AnnotateUsedMemory
// Before: a graph
// After:  the same; every node says how many bytes of intermediate values are in memory while it
// runs
//   (Node::used_bytes, in the text form "uses N"). A node that runs as part of another one says
//   what that one uses; one that costs nothing (Reshape) what the one before it uses.
// Conditions: all shapes are known, and no control flow.
// Formula: the graph is planned as for a run; a step uses what is alive between its inputs' last
// and
//   its outputs' first use, its workspace included, each rounded up to the arena's alignment of 64
//   bytes. The largest of these is the size of the arena wherever the planner reaches its lower
//   bound, as it does for every network of the tests.
#include <algorithm>
#include <unordered_map>

#include "api/requant.h"

namespace requant {

bool AnnotateUsedMemory(Graph& graph, PassContext&) {
  std::vector<Shape> shapes;
  for (const Value* input : graph.inputs()) {
    if (input->is_constant()) continue;
    if (!input->type.IsStatic()) return false;
    shapes.push_back(input->type.StaticShape());
  }
  std::unique_ptr<Graph> ready = SpecializeGraph(std::make_shared<Graph>(graph.Clone()), shapes);
  if (!IsStatic(*ready)) return false;
  const std::shared_ptr<const Plan> plan = CompilePlan(std::move(*ready), {});
  std::unordered_map<std::string, int64_t> used;  // by the name of the step's node
  for (size_t i = 0; i < plan->steps.size(); ++i) {
    int64_t& most = used[plan->steps[i]->name];
    most = std::max(most, static_cast<int64_t>(plan->used_memory[i]));
  }
  bool changed = false;
  int64_t last = plan->used_memory.empty() ? 0 : static_cast<int64_t>(plan->used_memory[0]);
  for (const auto& node : graph.nodes()) {
    auto found = used.find(node->name);
    if (found == used.end()) {
      const Node* planned = plan->graph->FindNode(node->name);
      if (planned) found = used.find(planned->group);
    }
    if (found != used.end()) last = found->second;
    changed = changed || node->used_bytes != last;
    node->used_bytes = last;
  }
  return changed;
}

std::span<const Pass> ApiPasses() {
  // An integer accumulator is exact where a float sum is rounded: a result may be a step away, and
  // a step is up to 1/255 of what a tensor holds.
  static constexpr Pass kPasses[] = {
      {"Legalize", "8-bit operators between Q/DQ pairs become integer operators", 0.01,
       PassRole::kByName, Legalize},
      {"AnnotateUsedMemory", "bytes of memory in use at every operator, before running", 0,
       PassRole::kByName, AnnotateUsedMemory},
  };
  return kPasses;
}

}  // namespace requant
