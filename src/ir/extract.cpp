#include "ir/extract.h"

#include <map>

namespace requant {

Graph Extract(const Graph& graph, const std::vector<const Node*>& nodes,
              const std::vector<const Value*>& outputs) {
  Graph out;
  out.name = graph.name;
  out.opsets = graph.opsets;
  std::map<const Value*, Value*> twins;
  const auto twin = [&](const Value* value) -> Value* {
    if (value == nullptr) return nullptr;
    Value*& made = twins[value];
    if (made == nullptr) {
      made = value->is_constant() ? out.AddConstant(value->name, value->constant)
                                  : out.AddValue(value->name, value->type);
    }
    return made;
  };
  for (const Node* node : nodes) {
    std::vector<Value*> inputs, results;
    for (const Value* value : node->inputs) {
      const bool known = value == nullptr || value->is_constant() || twins.contains(value);
      inputs.push_back(twin(value));
      if (!known) out.AddInput(inputs.back());
    }
    for (const Value* value : node->outputs) results.push_back(twin(value));
    Node* made = out.AddNode(node->op_type, node->domain, std::move(inputs), std::move(results),
                             node->attributes, node->name);
    made->group = node->group;
  }
  for (const Value* output : outputs) out.AddOutput(twin(output));
  return out;
}

}  // namespace requant
