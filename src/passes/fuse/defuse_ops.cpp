// DefuseOps
//   Before: nodes that name the group that FuseOps found for them
//   After:  the same nodes, each on its own
//   Conditions: none. Only records of groups change, so every bit of the outputs stays.
#include "passes/pass.h"

namespace requant {

bool DefuseOps(Graph& graph, PassContext&) {
  bool changed = false;
  for (const auto& node : graph.nodes()) {
    changed = changed || !node->group.empty();
    node->group.clear();
  }
  return changed;
}

}  // namespace requant
