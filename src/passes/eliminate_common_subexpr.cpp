// EliminateCommonSubexpr
// Before: two nodes with the same operator, attributes and inputs (constants compared bit for bit).
// After:  the first; everyone reads its outputs.
// Conditions: at most one of each pair of outputs is a graph output, because each output has its
// own
//   name. No operator of the table is random.
#include <algorithm>
#include <map>
#include <string>
#include <string_view>

#include "base/str_cat.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace requant {
namespace {

/// Numbers values so that equal constants have equal numbers.
class ValueNumbers {
 public:
  size_t Of(const Value* value) {
    if (value == nullptr) return 0;
    const auto [entry, added] = numbers_.emplace(value, numbers_.size() + 1);
    if (!added || !value->is_constant()) return entry->second;
    auto& equals = constants_[Key(value->constant)];
    for (const Value* other : equals) {
      if (other->constant.SameBits(value->constant)) return entry->second = numbers_[other];
    }
    equals.push_back(value);
    return entry->second;
  }

 private:
  /// Type, shape and the first bytes; SameBits decides.
  static std::string Key(const Tensor& tensor) {
    const auto* bytes = static_cast<const char*>(tensor.raw());
    return StrCat(DTypeName(tensor.dtype()), ShapeToString(tensor.shape()),
                  std::string_view(bytes, std::min<size_t>(tensor.bytes(), 32)));
  }

  std::map<const Value*, size_t> numbers_;
  std::map<std::string, std::vector<const Value*>> constants_;
};

std::string KeyOf(const Node& node, ValueNumbers& numbers) {
  std::string key = StrCat(node.domain, "::", node.op_type, "/", node.outputs.size());
  for (const Value* input : node.inputs) key += StrCat(",", numbers.Of(input));
  return key;
}

bool CanMerge(const Graph& graph, const Node& from, const Node& to) {
  for (size_t i = 0; i < from.outputs.size(); ++i) {
    if ((from.outputs[i] == nullptr) != (to.outputs[i] == nullptr)) return false;
    if (from.outputs[i] && !CanReplace(graph, from.outputs[i], to.outputs[i])) return false;
  }
  return SameAttributes(from.attributes, to.attributes);
}

}  // namespace

bool EliminateCommonSubexpr(Graph& graph, PassContext&) {
  bool changed = false;
  ValueNumbers numbers;
  std::map<std::string, std::vector<Node*>> seen;
  for (size_t i = 0; i < graph.nodes().size();) {
    Node* node = graph.nodes()[i].get();
    std::vector<Node*>& candidates = seen[KeyOf(*node, numbers)];
    const auto twin = std::find_if(candidates.begin(), candidates.end(), [&](const Node* other) {
      return CanMerge(graph, *node, *other);
    });
    if (twin == candidates.end()) {
      candidates.push_back(node);
      ++i;
      continue;
    }
    for (size_t slot = 0; slot < node->outputs.size(); ++slot) {
      if (node->outputs[slot])
        graph.ReplaceAndKeepName(node->outputs[slot], (*twin)->outputs[slot]);
    }
    graph.EraseNode(node);
    changed = true;
  }
  if (changed) graph.RemoveUnusedValues();
  return changed;
}

}  // namespace requant
