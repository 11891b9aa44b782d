#include "passes/shape/followed_shapes.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "ops/op.h"
#include "passes/pass.h"
#include "passes/shape/fold_node.h"
#include "passes/shape/shape_values.h"

namespace requant {
namespace {

bool IsKnown(const ValueType& type) { return type.IsStatic() && type.dtype != DType::kUndefined; }

/// Returns the contents of the node's outputs if they follow from shapes and constants alone, else
/// an empty list.
std::vector<Tensor> ConstantsOf(const Graph& graph, const Node& node) {
  const Value* output = node.output();
  if (output && !graph.IsOutput(output) && !output->consumers.empty()) {
    const auto entries = EntriesOfType(node);
    std::optional<Tensor> tensor = entries ? TensorOf(*output, *entries) : std::nullopt;
    if (tensor) {
      std::vector<Tensor> results;
      results.push_back(std::move(*tensor));
      return results;
    }
  }
  return FoldedResults(graph, node, {});
}

}  // namespace

bool SameStaticType(const ValueType& a, const ValueType& b) {
  return a.dtype == b.dtype && a.shape == b.shape;
}

FollowedShapes::FollowedShapes(Graph graph, const std::vector<Shape>& input_shapes)
    : graph_(std::move(graph)) {
  graph_.Renumber();
  marked_.assign(graph_.nodes().size(), 0);
  folded_.assign(graph_.nodes().size(), 0);
  for (const auto& value : graph_.values()) {
    if (value->producer) value->type.shape.reset();
  }
  SetInputs(input_shapes);
  ready_ = std::all_of(graph_.nodes().begin(), graph_.nodes().end(),
                       [this](const auto& node) { return !node->has_subgraph() && Visit(*node); });
  first_ = false;
}

void FollowedShapes::Mark(const Value& value) {
  for (const Node* node : value.consumers) marked_[node->position] = 1;
}

void FollowedShapes::SetInputs(const std::vector<Shape>& input_shapes) {
  size_t next = 0;
  for (Value* input : graph_.inputs()) {
    if (input->is_constant()) continue;
    SymbolicShape shape = ToSymbolic(input_shapes.at(next++));
    if (input->type.shape == shape) continue;
    input->type.shape = std::move(shape);
    Mark(*input);
  }
}

bool FollowedShapes::Visit(const Node& node) {
  std::vector<ValueType> types = InferNode(graph_, node);
  types.resize(node.outputs.size());
  std::vector<uint8_t> changed(node.outputs.size());
  for (size_t i = 0; i < types.size(); ++i) {
    Value* output = node.outputs[i];
    if (output == nullptr) continue;
    if (!IsKnown(types[i])) return false;
    if (SameStaticType(types[i], output->type)) continue;
    output->type = std::move(types[i]);
    changed[i] = 1;
  }
  uint8_t& folded = folded_[node.position];
  // The set of constants never changes, so a node that was not folded cannot be folded later.
  if (first_ || folded) {
    const std::vector<Tensor> constants = ConstantsOf(graph_, node);
    if (first_) folded = !constants.empty();
    if (folded == constants.empty()) return false;
    for (size_t i = 0; i < constants.size(); ++i) {
      Value* output = node.outputs[i];
      if (output == nullptr || (!changed[i] && output->constant.SameBits(constants[i]))) continue;
      output->constant = constants[i];
      changed[i] = 1;
      changed_constants_.push_back(output);
    }
  }
  for (size_t i = 0; i < changed.size(); ++i) {
    if (changed[i]) Mark(*node.outputs[i]);
  }
  return true;
}

bool FollowedShapes::Follow(const std::vector<Shape>& input_shapes) {
  ready_ = false;
  touched_.clear();
  changed_constants_.clear();
  std::fill(marked_.begin(), marked_.end(), uint8_t{0});
  SetInputs(input_shapes);
  for (size_t i = 0; i < marked_.size(); ++i) {
    if (!marked_[i]) continue;
    const Node& node = *graph_.nodes()[i];
    touched_.push_back(&node);
    if (!Visit(node)) return false;
  }
  ready_ = true;
  return true;
}

}  // namespace requant
