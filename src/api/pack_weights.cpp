#include <algorithm>

#include "api/requant.h"
#include "ops/op.h"

namespace requant {

Graph PackWeights(const std::shared_ptr<const Graph>& graph) {
  const bool rewrites =
      std::any_of(graph->nodes().begin(), graph->nodes().end(), [](const auto& node) {
        const OpDef* op = node->domain.empty() ? nullptr : FindOp(node->op_type, node->domain);
        return op != nullptr && op->rewrite != nullptr;
      });
  return PackTwoValues(rewrites ? *PrepareForRun(graph) : *graph);
}

}  // namespace requant
