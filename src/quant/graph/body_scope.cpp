#include "quant/graph/body_scope.h"

#include <algorithm>

#include "base/str_cat.h"

namespace requant {
namespace {

void InsertInput(Graph& graph, Node& node, size_t slot, Value* value) {
  std::vector<Value*> behind(node.inputs.begin() + static_cast<std::ptrdiff_t>(slot),
                             node.inputs.end());
  for (size_t i = 0; i < behind.size(); ++i) graph.SetInput(&node, slot + 1 + i, behind[i]);
  graph.SetInput(&node, slot, value);
}

using Visit = std::function<void(const std::string&, const Node&, const Node&)>;

void VisitIn(const Graph& graph, const std::string& path, const Node* outermost,
             const Visit& visit) {
  for (const auto& node : graph.nodes()) {
    if (outermost) visit(path + node->name, *node, *outermost);
    for (const auto& [name, value] : node->attributes.entries()) {
      const auto* body = std::get_if<Subgraph>(&value);
      if (body == nullptr) continue;
      VisitIn(**body, StrCat(path, node->name, "/", name, "/"), outermost ? outermost : node.get(),
              visit);
    }
  }
}

}  // namespace

void VisitBodies(const Graph& graph, const Visit& visit) { VisitIn(graph, "", nullptr, visit); }

BodyScope::BodyScope(Graph& graph, BodyScope& around, Node& owner, const std::string& attribute)
    : graph_(graph), path_(StrCat(around.path_, owner.name, "/", attribute, "/")) {
  size_t first = owner.formal_inputs();
  for (const auto& [name, value] : owner.attributes.entries()) {
    if (name == attribute) break;
    if (const auto* body = std::get_if<Subgraph>(&value)) first += (*body)->captured;
  }
  outside_ = std::make_unique<Outside>(Outside{around, owner, first});
}

Value* BodyScope::Behind(const Value* value) const {
  if (outside_ == nullptr || value == nullptr) return nullptr;
  for (size_t i = 0; i < graph_.captured; ++i) {
    if (graph_.inputs()[FirstCaptured() + i] == value) {
      return outside_->owner.inputs[outside_->first + i];
    }
  }
  return nullptr;
}

const Tensor* BodyScope::ConstantOf(const Value* value) const {
  if (value == nullptr) return nullptr;
  if (value->is_constant()) return &value->constant;
  const Value* outer = Behind(value);
  return outer ? outside_->scope.ConstantOf(outer) : nullptr;
}

Value* BodyScope::Derive(const Value* source, const std::string& suffix,
                         const std::function<Tensor()>& make) {
  if (const Value* outer = source->is_constant() ? nullptr : Behind(source)) {
    return Capture(outside_->scope.Derive(outer, suffix, make));
  }
  Value*& made = made_[{source, suffix}];
  if (made == nullptr) made = graph_.AddConstant(FreeName(source->name + suffix), make());
  return made;
}

Value* BodyScope::Capture(Value* outer) {
  for (size_t i = 0; i < graph_.captured; ++i) {
    if (outside_->owner.inputs[outside_->first + i] == outer) {
      return graph_.inputs()[FirstCaptured() + i];
    }
  }
  const size_t slot = outside_->first + graph_.captured;
  Value* inner = graph_.AddValue(outer->name, outer->type);
  graph_.AddInput(inner);
  ++graph_.captured;
  InsertInput(outside_->scope.graph_, outside_->owner, slot, outer);
  return inner;
}

void BodyScope::DropUnusedCaptures() {
  for (size_t i = graph_.captured; i-- > 0;) {
    Value* inner = graph_.inputs()[FirstCaptured() + i];
    if (!inner->consumers.empty() || graph_.IsOutput(inner)) continue;
    graph_.RemoveInput(inner);
    --graph_.captured;
    outside_->scope.graph_.RemoveNodeInput(&outside_->owner, outside_->first + i);
  }
  graph_.RemoveUnusedValues();
}

void BodyScope::ForEachBody(const std::function<void(BodyScope&)>& visit) {
  std::vector<Node*> owners;
  for (const auto& node : graph_.nodes()) {
    if (node->has_subgraph()) owners.push_back(node.get());
  }
  for (Node* owner : owners) {
    std::vector<std::string> names;
    for (const auto& [name, value] : owner->attributes.entries()) {
      if (std::holds_alternative<Subgraph>(value)) names.push_back(name);
    }
    for (const std::string& name : names) {
      auto body = std::make_shared<Graph>(owner->attributes.GraphValue(name)->Clone());
      owner->attributes.Set(name, Subgraph(body));
      BodyScope scope(*body, *this, *owner, name);
      visit(scope);
      scope.DropUnusedCaptures();
    }
  }
}

std::string BodyScope::FreeName(std::string name) const {
  const auto is_taken = [this](const std::string& wanted) {
    for (const BodyScope* scope = this; scope;
         scope = scope->outside_ ? &scope->outside_->scope : nullptr) {
      if (scope->graph_.FindValue(wanted)) return true;
    }
    return false;
  };
  const std::string wanted = name;
  for (int i = 1; is_taken(name); ++i) name = StrCat(wanted, "_", i);
  return name;
}

}  // namespace requant
