#include "session/bodies.h"

#include <algorithm>

#include "ops/subgraph.h"

namespace requant {
namespace {

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

std::unique_ptr<Session> SessionOf(const Graph& body, std::span<const Tensor* const> inputs,
                                   const SessionOptions& options) {
  if (!NeedsSession(body)) return nullptr;
  auto graph = std::make_shared<Graph>(body.Clone());
  // What a body says of its inputs' shapes need not hold for every iteration.
  size_t next = 0;
  for (Value* input : graph->inputs()) {
    if (!input->is_constant()) input->type = {inputs[next++]->dtype(), std::nullopt};
  }
  graph->captured = 0;
  return std::make_unique<Session>(std::move(graph), options);
}

}  // namespace

std::vector<Tensor> Bodies::Run(const Graph& body, std::span<const Tensor* const> inputs) {
  auto found = sessions_.find(&body);
  if (found == sessions_.end()) {
    found = sessions_.emplace(&body, SessionOf(body, inputs, options_)).first;
  }
  if (!found->second) return EvaluateGraph(body, inputs, options_.plan.requantize);
  TensorMap feeds;
  size_t next = 0;
  for (const Value* input : body.inputs()) {
    if (!input->is_constant()) feeds[input->name] = *inputs[next++];
  }
  return found->second->Run(feeds);
}

}  // namespace requant
