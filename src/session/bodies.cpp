#include "session/bodies.h"

#include <algorithm>

#include "base/str_cat.h"
#include "ops/control/subgraph.h"

namespace requant {

bool NeedsSession(const Graph& body) {
  return std::any_of(body.nodes().begin(), body.nodes().end(), [&body](const auto& node) {
    if (IsExpensive(body, *node)) return true;
    const auto& entries = node->attributes.entries();
    return std::any_of(entries.begin(), entries.end(), [](const auto& entry) {
      const auto* inner = std::get_if<Subgraph>(&entry.second);
      return inner && NeedsSession(**inner);
    });
  });
}

Graph BodyOfTypes(const Graph& body, std::span<const ValueType> types) {
  Graph graph = body.Clone();
  size_t next = 0;
  for (Value* input : graph.inputs()) {
    if (input->is_constant()) continue;
    graph.RenameValue(input, StrCat("#", next));
    input->type = types[next++];
  }
  graph.captured = 0;
  return graph;
}

std::vector<Tensor> Bodies::Run(const Graph& body, std::span<const Tensor* const> inputs) {
  auto found = sessions_.find(&body);
  if (found == sessions_.end()) {
    std::unique_ptr<Session> session;
    if (NeedsSession(body)) {
      // The shapes that a body declares for its inputs need not hold for every iteration.
      std::vector<ValueType> types;
      for (const Tensor* input : inputs) types.push_back({input->dtype(), std::nullopt});
      session = std::make_unique<Session>(PreparedModel::AsIs(BodyOfTypes(body, types)), options_);
    }
    found = sessions_.emplace(&body, std::move(session)).first;
  }
  if (!found->second) return EvaluateGraph(body, inputs, options_.plan.requantize);
  TensorMap feeds;
  size_t next = 0;
  for (const Value* input : found->second->graph().inputs()) {
    if (!input->is_constant()) feeds[input->name] = *inputs[next++];
  }
  return found->second->Run(feeds);
}

}  // namespace requant
