#include <algorithm>

#include "api/prepare.h"
#include "api/read_quantized.h"
#include "ops/op.h"
#include "quant/weights/pack_weights.h"

namespace requant {

Graph PackWeights(const Graph& graph) {
  const bool rewrites =
      std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const auto& node) {
        const OpDef* op = node->domain.empty() ? nullptr : FindOp(*node);
        return op != nullptr && op->rewrite != nullptr;
      });
  return rewrites ? PackTwoValues(PrepareForRun(graph).graph()) : PackTwoValues(WithFloats(graph));
}

}  // namespace requant
