#include <algorithm>

#include "partition/partition.h"

namespace requant {
namespace {

bool IsOp(const Node& node, std::string_view name) {
  const size_t colons = name.find("::");
  if (colons == std::string_view::npos) return node.Is(name);
  return node.domain == name.substr(0, colons) && node.op_type == name.substr(colons + 2);
}

}  // namespace

std::vector<const Node*> MatchPattern(const Graph& graph, const Node* first,
                                      const std::vector<std::string>& pattern) {
  std::vector<const Node*> chain;
  const Node* node = first;
  for (const std::string& op : pattern) {
    if (node == nullptr || !IsOp(*node, op)) return {};
    chain.push_back(node);
    // Anybody may read results beside the first one, so a node that has them ends the chain.
    const bool single = std::all_of(node->outputs.begin() + 1, node->outputs.end(),
                                    [](const Value* value) { return value == nullptr; });
    node = single ? graph.SoleConsumer(node->output()) : nullptr;
  }
  return chain;
}

}  // namespace requant
