#include "passes/own/pattern.h"

#include <algorithm>
#include <utility>

namespace requant {
namespace {

bool MatchNode(const PatternNode& pattern, Node* node, PatternMatch& match);

bool MatchValue(const PatternNode& pattern, Value* value, PatternMatch& match) {
  if (pattern.kind == PatternNode::Kind::kAbsent) return value == nullptr;
  if (value == nullptr) return false;
  if (pattern.kind == PatternNode::Kind::kOperator) {
    // The operator is the first output's: others have no pattern.
    Node* node = value->producer;
    return node != nullptr && node->output() == value && MatchNode(pattern, node, match);
  }
  if (pattern.kind == PatternNode::Kind::kConstant && !value->is_constant()) return false;
  return pattern.name.empty() || match.values.emplace(pattern.name, value).first->second == value;
}

bool MatchInputs(const PatternNode& pattern, const std::vector<Value*>& inputs,
                 PatternMatch& match) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!MatchValue(pattern.inputs[i], inputs[i], match)) return false;
  }
  return true;
}

bool MatchNode(const PatternNode& pattern, Node* node, PatternMatch& match) {
  if (!node->Is(pattern.op, pattern.domain)) return false;
  if (!pattern.name.empty() && match.nodes.emplace(pattern.name, node).first->second != node) {
    return false;
  }
  if (!pattern.has_inputs) return true;
  std::vector<Value*> inputs = node->inputs;
  while (inputs.size() < pattern.inputs.size()) inputs.push_back(nullptr);
  if (inputs.size() != pattern.inputs.size()) return false;
  const PatternMatch before = match;
  if (MatchInputs(pattern, inputs, match)) return true;
  match = before;
  if (!pattern.commutes || inputs.size() != 2) return false;
  std::swap(inputs[0], inputs[1]);
  return MatchInputs(pattern, inputs, match);
}

}  // namespace

bool MatchPattern(const PatternNode& pattern, Node* root, PatternMatch& match) {
  match = {root, {}, {}};
  return MatchNode(pattern, root, match);
}

}  // namespace requant
