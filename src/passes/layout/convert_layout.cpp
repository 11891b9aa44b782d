// ConvertLayout
// Before: Relu(Transpose(x, p)); Add(Transpose(x, p), Transpose(y, p)); Mul(Transpose(x, p), c);
//   Concat(Transpose(x, p), Transpose(y, p), axis a); ReduceMean(Transpose(x, p), axes a)
// After:  Transpose(Relu(x), p); ...; c transposed by the inverse of p; axis p[a]. A reduction that
//   drops its axes needs no Transpose when the others keep their order.
// Conditions: elementwise operators, Concat and reductions. Every operand that is not constant is a
//   Transpose by the same p that nobody else reads, so their number never grows. Reduced axes keep
//   their order, so that sums add up in the same order. SimplifyExpr cancels transposes that meet
//   their inverse.
// Formula: f(T x) = T f(x) for every f of one element; Concat(T x, T y, a) = T Concat(x, y, p[a]);
//   a sum over axes a of T x is a sum over axes p[a] of x.
#include <algorithm>
#include <string_view>

#include "ops/op.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace requant {
namespace {

using Perm = std::vector<int64_t>;

bool IsElementwise(const Node& node) {
  constexpr std::string_view kMore[] = {"Add", "Sub",  "Mul",   "Div",  "Min", "Max",
                                        "Pow", "Relu", "PRelu", "Clip", "Cast"};
  if (std::find(std::begin(kMore), std::end(kMore), node.op_type) != std::end(kMore)) return true;
  const OpDef* op = FindOp(node);
  return op && op->quant == QuantRule::kUnary;
}

/// x if `value` is Transpose(x, perm) that only `node` reads; sets perm when it is empty.
Value* Untransposed(const Graph& graph, const Node* node, const Value* value, Perm& perm) {
  const Node* producer = value->producer;
  if (producer == nullptr || !producer->Is(Op::kTranspose) || graph.IsOutput(value) ||
      std::any_of(value->consumers.begin(), value->consumers.end(),
                  [node](const Node* reader) { return reader != node; })) {
    return nullptr;
  }
  const Perm found = producer->attributes.Ints("perm");
  if (perm.empty()) perm = found;
  return found.empty() || found != perm ? nullptr : producer->input(0);
}

/// The axes of a reduction in the order of x; nullopt when they would change their order.
std::optional<Perm> MovedAxes(const Node& node, const Perm& perm) {
  Perm axes = node.attributes.Ints("axes");
  if (node.constant(1)) axes = node.constant(1)->ToInts();
  Perm moved;
  for (int64_t& axis : axes) {
    if (axis < 0) axis += static_cast<int64_t>(perm.size());
    if (axis < 0 || axis >= static_cast<int64_t>(perm.size())) return {};
    moved.push_back(perm[static_cast<size_t>(axis)]);
  }
  const auto increases = [](const Perm& list) { return std::is_sorted(list.begin(), list.end()); };
  if (moved.empty() || !increases(axes) || !increases(moved)) return {};
  if (node.attributes.Int("keepdims", 1) == 0) {
    Perm rest;
    for (const int64_t axis : perm) {
      if (std::find(moved.begin(), moved.end(), axis) == moved.end()) rest.push_back(axis);
    }
    if (!increases(rest)) return {};
  }
  return moved;
}

bool SinkTranspose(Graph& graph, Node* node) {
  const bool concat = node->Is(Op::kConcat);
  const bool reduce = node->domain.empty() && node->op_type.starts_with("Reduce");
  if (node->outputs.size() != 1 || node->input(0) == nullptr ||
      !(concat || reduce || IsElementwise(*node))) {
    return false;
  }
  // Operands exclude bounds and axes.
  const size_t operands = reduce || node->Is(Op::kClip) ? 1 : node->inputs.size();
  Perm perm;
  std::vector<Value*> inputs;
  for (size_t slot = 0; slot < operands; ++slot) {
    Value* value = node->input(slot);
    if (value == nullptr) return false;
    Value* x = value->is_constant() ? value : Untransposed(graph, node, value, perm);
    if (x == nullptr) return false;
    inputs.push_back(x);
  }
  const size_t rank = perm.size();
  if (rank == 0) return false;
  Perm inverse(rank);
  for (size_t i = 0; i < rank; ++i) inverse[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  std::optional<Perm> axes;
  if (reduce && (!(axes = MovedAxes(*node, perm)) || (node->input(1) && !node->constant(1)))) {
    return false;
  }
  for (const Value* value : inputs) {
    if (RankOf(value) > static_cast<int64_t>(rank)) return false;
  }
  for (size_t slot = 0; slot < operands; ++slot) {
    Value* x = inputs[slot];
    if (x == node->input(slot) && x->constant.count() > 1) {
      Shape shape = x->constant.shape();
      shape.insert(shape.begin(), rank - shape.size(), 1);
      AttributeMap attributes;
      attributes.Set("perm", inverse);
      Value* aligned = graph.AddConstant(x->name, x->constant.Reshaped(std::move(shape)));
      SymbolicShape type;
      for (const int64_t axis : inverse) type.emplace_back(aligned->constant.dim(axis));
      x = graph.AddOp("Transpose", "", {aligned}, x->name, {aligned->type.dtype, std::move(type)},
                      std::move(attributes));
    }
    graph.SetInput(node, slot, x);
  }
  if (concat) {
    const int64_t axis = node->attributes.Int("axis", 1);
    node->attributes.Set(
        "axis", perm[static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank) : axis)]);
  }
  if (axes) {
    if (node->input(1)) {
      graph.SetInput(node, 1, graph.AddConstant(node->name + "_axes", Tensor::Vector(*axes)));
    } else {
      node->attributes.Set("axes", *axes);
    }
    if (node->attributes.Int("keepdims", 1) == 0) return true;
  }
  ValueType between = node->outputs[0]->type;
  if (between.shape && between.shape->size() == rank) {
    const SymbolicShape shape = *between.shape;
    for (size_t i = 0; i < rank; ++i) (*between.shape)[static_cast<size_t>(perm[i])] = shape[i];
  }
  AttributeMap attributes;
  attributes.Set("perm", std::move(perm));
  AppendOp(graph, node, "Transpose", {}, std::move(between), std::move(attributes));
  return true;
}

}  // namespace

bool ConvertLayout(Graph& graph, PassContext&) { return RewriteNodes(graph, SinkTranspose); }

}  // namespace requant
