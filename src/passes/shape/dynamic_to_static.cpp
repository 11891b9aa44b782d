// DynamicToStatic
// Before: Reshape(x, s) or Expand(x, s) with a dynamic s (Shape -> Gather -> Concat ...)
// After:  the same operator with a constant s. Reshape's has 0 for dimensions that are copied and
//   -1 for one that is unknown; Expand's has 1 for dimensions that stay.
// Conditions: every element of s is a number or a dimension of some value. Reshape has at most one
//   that is neither a number nor x's own dimension at that position, Expand none.
//
// Before: Squeeze, Unsqueeze, Tile, TopK, OneHot, Resize, Pad, Slice, ConstantOfShape, Split or
//   Range with dynamic axes, counts, sizes, pads or bounds
// After:  the same operator with constants
// Conditions: every element is a number that follows from known shapes.
// Formula: elements of shape values are numbers or dimensions (shape_values.h); Shape, Gather,
//   Concat, Slice and arithmetic on them are computed with these symbols.
#include <algorithm>

#include "passes/pass.h"
#include "passes/rewrite.h"
#include "passes/shape/shape_values.h"

namespace requant {
namespace {

std::optional<std::vector<int64_t>> StaticTarget(const Value& data, bool reshape,
                                                 const std::vector<ShapeEntry>& entries) {
  if (!data.type.shape) return {};
  const SymbolicShape& shape = *data.type.shape;
  // Reshape counts dimensions from the first, Expand from the last.
  const size_t offset = reshape ? 0 : entries.size() - shape.size();
  std::vector<int64_t> target;
  bool has_wildcard =
      !reshape || std::any_of(entries.begin(), entries.end(),
                              [](const auto& entry) { return entry.known && entry.value == -1; });
  for (size_t i = 0; i < entries.size(); ++i) {
    const ShapeEntry& entry = entries[i];
    const size_t place = i - offset;  // wraps around to a large number
    const bool copies = place < shape.size() && !entry.symbol.empty() && !shape[place].known() &&
                        shape[place].symbol == entry.symbol;
    if (entry.known) {
      target.push_back(entry.value);
    } else if (copies) {
      target.push_back(reshape ? 0 : 1);
    } else if (!has_wildcard) {
      target.push_back(-1);
      has_wildcard = true;
    } else {
      return {};
    }
  }
  return target;
}

/// Operators, and which of their inputs are shapes, axes, counts or bounds.
struct ShapeOperand {
  const char* op;
  size_t first, last;
};
constexpr ShapeOperand kShapeOperands[] = {
    {"Squeeze", 1, 1}, {"Unsqueeze", 1, 1},      {"Tile", 1, 1},
    {"TopK", 1, 1},    {"OneHot", 1, 1},         {"Resize", 3, 3},
    {"Pad", 1, 1},     {"Slice", 1, 4},          {"Split", 1, 1},
    {"Range", 0, 2},   {"ConstantOfShape", 0, 0}};

bool MakeStatic(Graph& graph, Node* node, const std::map<Value*, std::vector<ShapeEntry>>& known) {
  bool changed = false;
  for (const ShapeOperand& row : kShapeOperands) {
    if (!node->Is(row.op)) continue;
    for (size_t slot = row.first; slot <= row.last; ++slot) {
      const auto found = known.find(node->input(slot));
      if (found == known.end()) continue;
      const auto tensor = TensorOf(*found->first, found->second);
      if (!tensor) continue;
      graph.SetInput(node, slot, graph.AddConstant(found->first->name, *tensor));
      changed = true;
    }
  }
  return changed;
}

}  // namespace

bool DynamicToStatic(Graph& graph, PassContext&) {
  bool changed = false;
  const auto known = FindShapeValues(graph);
  if (known.empty()) return false;
  for (const auto& node : graph.nodes()) {
    changed = MakeStatic(graph, node.get(), known) || changed;
    const bool reshape = node->Is(Op::kReshape);
    if (!reshape && !node->Is(Op::kExpand)) continue;
    const auto found = known.find(node->input(1));
    if (found == known.end() || node->attributes.Int("allowzero", 0) != 0) continue;
    const auto target = StaticTarget(*node->input(0), reshape, found->second);
    if (!target) continue;
    graph.SetInput(node.get(), 1, graph.AddConstant(found->first->name, Tensor::Vector(*target)));
    changed = true;
  }
  if (changed) RemoveDeadNodes(graph);
  return changed;
}

}  // namespace requant
