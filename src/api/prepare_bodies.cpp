// Prepares the bodies of control flow; among the extended operators, as control flow is
// (bindings/README.md).
#include <utility>

#include "api/prepare.h"
#include "tensor/dtype.h"

namespace requant {

void PrepareBodies(Graph& graph) {
  for (const auto& node : graph.nodes()) {
    if (!node->has_subgraph()) continue;
    std::vector<AttributeMap::Entry> prepared;
    size_t next = node->formal_inputs();
    for (const auto& [name, attribute] : node->attributes.entries()) {
      const auto* given = std::get_if<Subgraph>(&attribute);
      if (given == nullptr) continue;
      auto body = std::make_shared<Graph>((*given)->Clone());
      const size_t captured = std::exchange(body->captured, 0);
      const size_t formal = body->inputs().size() - captured;
      // The shapes that a body declares for its inputs, and what follows from them, need not hold
      // for every iteration.
      for (const auto& value : body->values()) {
        if (!value->is_constant()) value->type.shape.reset();
      }
      for (const auto& inner : body->nodes()) inner->typed = false;
      for (size_t i = 0; i < captured; ++i, ++next) {
        const Value* outer = node->inputs[next];
        if (outer && outer->type.dtype != DType::kUndefined)
          body->inputs()[formal + i]->type = outer->type;
      }
      Prepare(*body);
      body->captured = captured;
      prepared.emplace_back(name, Subgraph(std::move(body)));
    }
    for (auto& [name, body] : prepared) node->attributes.Set(name, std::move(body));
  }
}

}  // namespace requant
