// LazyGradientInit
// Before: op(x, F), F a tensor that repeats one element (ConstantOfShape, Expand of one), as at the
//   start of graphs that compute gradients: zeros_like, ones_like
// After:  op(x, that element)
// Conditions: op broadcasts, and its other inputs alone give the output its shape.
// Formula: broadcasting repeats an element as F does; the tensor is made only where something else
//   reads it.
#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "ops/infer_util.h"
#include "passes/pass.h"
#include "passes/rewrite.h"
#include "passes/shape/infer_type.h"
#include "passes/shape/shape_values.h"

namespace requant {
namespace {

constexpr const char* kOps[] = {"Add",   "Sub",     "Mul",   "Div",           "Pow",
                                "Max",   "Min",     "Sum",   "Mean",          "Where",
                                "Equal", "Greater", "Less",  "LessOrEqual",   "And",
                                "Or",    "Xor",     "PRelu", "GreaterOrEqual"};

/// The element that a value repeats, without dimensions; empty if unknown.
Tensor RepeatedBy(const Value* value) {
  const Node* node = value ? value->producer : nullptr;
  if (node == nullptr) return {};
  if (node->Is(Op::kConstantOfShape)) {
    const Tensor* given = node->attributes.TensorValue("value");
    if (given == nullptr) return Tensor::Scalar(0.0F);
    return given->count() == 1 ? given->Reshaped({}) : Tensor();
  }
  const Tensor* constant = node->Is(Op::kExpand) ? node->constant(0) : nullptr;
  return constant != nullptr && constant->count() == 1 ? constant->Reshaped({}) : Tensor();
}

using ShapeValues = std::map<Value*, std::vector<ShapeEntry>>;

/// The shape of such a value, from its type or from what its shape is computed from.
std::optional<SymbolicShape> ShapeOf(const Value* value, const ShapeValues& computed) {
  if (value->type.IsStatic()) return value->type.shape;
  const auto found =
      computed.find(value->producer->input(value->producer->Is(Op::kExpand) ? 1 : 0));
  if (found == computed.end()) return std::nullopt;
  SymbolicShape shape;
  for (const ShapeEntry& entry : found->second) {
    shape.push_back(entry.known ? Dim(entry.value) : Dim(entry.symbol));
  }
  return shape;
}

/// Whether the other inputs alone give the output its shape.
bool KeepsShape(const Node& node, size_t without, const ShapeValues& computed) {
  SymbolicShape shape;
  for (size_t slot = 0; slot < node.inputs.size(); ++slot) {
    if (slot == without) continue;
    const Value* input = node.input(slot);
    if (input == nullptr || !input->type.shape) return false;
    shape = BroadcastSymbolic(shape, *input->type.shape);
  }
  const auto own = ShapeOf(node.input(without), computed);
  const auto known = [](const Dim& dim) { return dim.known() || !dim.symbol.empty(); };
  return own && std::all_of(shape.begin(), shape.end(), known) &&
         std::all_of(own->begin(), own->end(), known) && BroadcastSymbolic(shape, *own) == shape;
}

}  // namespace

bool LazyGradientInit(Graph& graph, PassContext&) {
  bool changed = false;
  for (bool again = true; again; changed = changed || again) {
    const ShapeValues computed = FindShapeValues(graph);
    again = RewriteNodes(graph, [&computed](Graph& whole, Node* node) {
      const bool broadcasts = std::any_of(std::begin(kOps), std::end(kOps),
                                          [node](const char* op) { return node->Is(op); });
      if (!broadcasts) return false;
      for (size_t slot = 0; slot < node->inputs.size(); ++slot) {
        Tensor element = RepeatedBy(node->input(slot));
        if (element.empty() || !KeepsShape(*node, slot, computed)) continue;
        whole.SetInput(node, slot, AddNear(whole, node, std::move(element)));
        return true;
      }
      return false;
    });
    // Without an operand of open shape, types become better known.
    if (again) InferTypes(graph);
  }
  return changed;
}

}  // namespace requant
