#include "ir/composite.h"

#include <algorithm>

#include "base/error.h"
#include "base/str_cat.h"

namespace requant {
namespace {

[[noreturn]] void Refuse(const Node& node, const char* why) {
  Fail(ErrorCode::kInvalidArgument, StrCat("a composite ", why),
       {.node = node.name, .hint = "Only its own nodes may read what it computes on the way."});
}

}  // namespace

std::vector<const Node*> NodesOf(const Graph& graph, const Composite& composite) {
  std::vector<const Node*> nodes;
  for (const size_t position : composite.nodes) {
    if (position >= graph.nodes().size() ||
        (!nodes.empty() && graph.nodes()[position].get() == nodes.back())) {
      Fail(ErrorCode::kInvalidArgument, StrCat("a composite has no node ", position));
    }
    nodes.push_back(graph.nodes()[position].get());
  }
  if (nodes.empty()) Fail(ErrorCode::kInvalidArgument, "a composite has no nodes");
  if (!std::is_sorted(composite.nodes.begin(), composite.nodes.end())) {
    Refuse(*nodes[0], "has its nodes in another order than the graph");
  }
  const auto inside = [&nodes](const Node* node) {
    return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
  };
  for (const Node* node : nodes) {
    if (node == nodes.back()) break;
    for (const Value* value : node->outputs) {
      if (value == nullptr) continue;
      if (graph.IsOutput(value)) Refuse(*node, "has an inner result that the graph returns");
      if (!std::all_of(value->consumers.begin(), value->consumers.end(), inside)) {
        Refuse(*node, "has an inner result that other nodes read");
      }
    }
  }
  return nodes;
}

}  // namespace requant
