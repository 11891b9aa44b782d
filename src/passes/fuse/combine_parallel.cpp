#include "passes/fuse/combine_parallel.h"

#include <algorithm>
#include <unordered_set>

#include "ops/op.h"
#include "passes/rewrite.h"

namespace requant {
namespace {

/// The axis of the second operand that becomes the last (a Conv's second) axis of the output, or -1
/// for a node of another kind.
int64_t ChannelAxis(const Node& node, ParallelLayer kind) {
  const Value* weights = node.input(1);
  if (node.outputs.size() != 1 || node.output() == nullptr || node.input(0) == weights ||
      weights == nullptr || !weights->type.IsStatic() || RankOf(node.output()) < 2) {
    return -1;
  }
  const int64_t rank = RankOf(weights);
  if (kind == ParallelLayer::kConv) {
    const bool plain = node.Is(Op::kConv) && node.attributes.Int("group", 1) == 1;
    return plain && weights->is_constant() ? 0 : -1;
  }
  const bool constant = weights->is_constant() && rank == 2;
  if (kind == ParallelLayer::kBatchMatmul) {
    return node.Is(Op::kMatMul) && !weights->is_constant() && rank > 2 ? rank - 1 : -1;
  }
  if (constant && node.Is(Op::kGemm)) return node.attributes.Int("transB", 0) != 0 ? 0 : 1;
  return constant && node.Is(Op::kMatMul) ? 1 : -1;
}

int64_t Channels(const Node& node, int64_t axis) {
  return (*node.input(1)->type.shape)[static_cast<size_t>(axis)].value;
}

bool AreSiblings(const Node& a, const Node& b, int64_t axis, ParallelLayer kind) {
  if (b.input(0) != a.input(0) || b.op_type != a.op_type || ChannelAxis(b, kind) != axis ||
      !SameAttributes(a.attributes, b.attributes)) {
    return false;
  }
  SymbolicShape first = *a.input(1)->type.shape;
  SymbolicShape second = *b.input(1)->type.shape;
  if (first.size() != second.size()) return false;
  first[static_cast<size_t>(axis)] = second[static_cast<size_t>(axis)];
  if (first != second) return false;
  // A bias must have one number for each channel.
  const Tensor* bias = b.constant(2);
  return b.input(2) == nullptr || (bias && bias->rank() == 1 && bias->count() == Channels(b, axis));
}

/// The dimension of a constant that goes along the axis of a value of that rank, -1 if none does.
int64_t DimAlong(const Tensor& constant, int64_t axis, int64_t rank) {
  return std::max<int64_t>(axis - rank + constant.rank(), -1);
}

/// Whether the constants differ in their channels only, of which they have so many.
bool DifferInChannels(const Tensor& a, int64_t channels_a, const Tensor& b, int64_t channels_b,
                      int64_t axis, int64_t rank) {
  const int64_t along = DimAlong(a, axis, rank);
  if (along < 0 || a.rank() != b.rank() || a.rank() > rank || b.dim(along) != channels_b) {
    return false;
  }
  Shape shape = b.shape();
  shape[static_cast<size_t>(along)] = channels_a;
  return a.shape() == shape;
}

/// Whether `node` computes of `value` what `first` does of `first_value`, element by element, and
/// its other inputs are constants of the same types.
bool IsLike(const Node& first, const Value* first_value, const Node& node, const Value* value) {
  const OpDef* op = FindOp(node);
  if (op == nullptr || op->fusion != FusionRule::kBroadcast || node.op_type != first.op_type ||
      node.domain != first.domain || node.inputs.size() != first.inputs.size() ||
      node.outputs.size() != 1 || !SameShape(value, node.outputs[0]) ||
      !SameAttributes(node.attributes, first.attributes)) {
    return false;
  }
  int reads = 0;
  for (size_t slot = 0; slot < node.inputs.size(); ++slot) {
    const bool is_value = node.inputs[slot] == value;
    if (is_value != (first.inputs[slot] == first_value)) return false;
    reads += is_value;
    if (is_value || (node.inputs[slot] == nullptr && first.inputs[slot] == nullptr)) continue;
    const Tensor *a = first.constant(slot), *b = node.constant(slot);
    if (a == nullptr || b == nullptr || a->dtype() != b->dtype()) return false;
  }
  return reads == 1;
}

/// Moves the elementwise operators behind `values`, which are parts of `wide` with so many
/// channels, behind `wide` itself, while all parts have the same one and nothing else reads a part.
void MergeFollowers(Graph& graph, const std::vector<int64_t>& sizes, int64_t axis, Value*& wide,
                    std::vector<Value*>& values) {
  const int64_t rank = RankOf(wide);
  for (;;) {
    std::vector<Node*> nodes;
    for (size_t i = 0; i < values.size(); ++i) {
      nodes.push_back(graph.SoleConsumer(values[i]));
      if (nodes[i] == nullptr || !IsLike(*nodes[0], values[0], *nodes[i], values[i])) return;
    }
    Node* first = nodes[0];
    std::vector<size_t> joined;  // the slots of constants for each channel
    for (size_t slot = 0; slot < first->inputs.size(); ++slot) {
      const Tensor* a = first->constant(slot);
      if (a == nullptr) continue;
      bool same = a->count() == 1 && a->rank() <= rank, differ = true;
      for (size_t i = 0; i < nodes.size(); ++i) {
        const Tensor& b = *nodes[i]->constant(slot);
        same = same && b.count() == 1 && b.AsDouble(0) == a->AsDouble(0);
        differ = differ && DifferInChannels(*a, sizes[0], b, sizes[i], axis, rank);
      }
      if (!same && !differ) return;
      if (!same) joined.push_back(slot);
    }
    for (const size_t slot : joined) {
      const Tensor& constant = *first->constant(slot);
      std::vector<Value*> parts;
      for (const Node* node : nodes) parts.push_back(node->inputs[slot]);
      AttributeMap attributes;
      attributes.Set("axis", DimAlong(constant, axis, rank));
      graph.SetInput(first, slot,
                     AddNear(graph, first, "Concat", std::move(parts),
                             {constant.dtype(), std::nullopt}, std::move(attributes)));
    }
    graph.SetInput(first, first->inputs[0] == values[0] ? 0 : 1, wide);
    ValueType type = wide->type;
    type.dtype = first->outputs[0]->type.dtype;
    for (size_t i = 0; i < nodes.size(); ++i) {
      values[i] = nodes[i]->outputs[0];
      graph.SetOutput(nodes[i], 0, nullptr);
    }
    wide = graph.AddValue(first->name + "_wide", std::move(type));
    graph.SetOutput(first, 0, wide);
  }
}

/// Gives every member a bias if one of them has one.
void CompleteBiases(Graph& graph, const std::vector<Node*>& group, int64_t axis) {
  for (const Node* with : group) {
    if (with->input(2) == nullptr) continue;
    for (Node* node : group) {
      if (node->input(2) != nullptr) continue;
      graph.SetInput(node, 2,
                     AddNear(graph, node, Tensor(DType::kFloat32, {Channels(*node, axis)})));
    }
    return;
  }
}

}  // namespace

bool CombineParallel(Graph& graph, ParallelLayer kind) {
  bool changed = false;
  std::unordered_set<const Node*> before;
  const size_t count = graph.nodes().size();
  for (size_t i = 0; i < count; ++i) {
    Node* node = graph.nodes()[i].get();
    if (i > 0) before.insert(graph.nodes()[i - 1].get());
    const int64_t axis = ChannelAxis(*node, kind);
    if (axis < 0 || !AreSiblings(*node, *node, axis, kind)) continue;
    std::vector<Node*> group;
    for (Node* other : node->input(0)->consumers) {
      const Node* source = other->input(1) ? other->input(1)->producer : nullptr;
      if (!before.contains(other) && AreSiblings(*node, *other, axis, kind) &&
          (source == nullptr || before.contains(source))) {
        group.push_back(other);
      }
    }
    if (group.size() < 2) continue;
    std::vector<Value*> outputs;
    std::vector<int64_t> sizes;
    int64_t total = 0;
    for (Node* member : group) {
      outputs.push_back(member->outputs[0]);
      sizes.push_back(Channels(*member, axis));
      total += sizes.back();
    }
    if (kind != ParallelLayer::kBatchMatmul) CompleteBiases(graph, group, axis);
    for (size_t slot = 1; slot < node->inputs.size(); ++slot) {
      if (node->inputs[slot] == nullptr) continue;
      std::vector<Value*> parts;
      for (const Node* member : group) parts.push_back(member->inputs[slot]);
      const int64_t along = slot == 1 ? axis : 0;
      ValueType type = parts[0]->type;
      (*type.shape)[static_cast<size_t>(along)] = total;
      AttributeMap attributes;
      attributes.Set("axis", along);
      graph.SetInput(node, slot,
                     graph.AddOp("Concat", "", std::move(parts), node->name + "_all",
                                 std::move(type), std::move(attributes)));
    }
    const int64_t along = kind == ParallelLayer::kConv ? 1 : RankOf(outputs[0]) - 1;
    ValueType type = outputs[0]->type;
    (*type.shape)[static_cast<size_t>(along)] = total;
    for (Node* member : group) graph.SetOutput(member, 0, nullptr);
    Value* wide = graph.AddValue(node->name + "_wide", std::move(type));
    graph.SetOutput(node, 0, wide);
    if (kind != ParallelLayer::kBatchMatmul) MergeFollowers(graph, sizes, along, wide, outputs);
    AttributeMap attributes;
    attributes.Set("axis", along);
    std::vector<Value*> inputs = {wide};
    if (graph.opset() >= 13) {
      inputs.push_back(graph.AddConstant(node->name + "_sizes", Tensor::Vector(sizes)));
    } else {
      attributes.Set("split", sizes);
    }
    graph.AddNode("Split", "", std::move(inputs), std::move(outputs), std::move(attributes));
    changed = true;
  }
  if (changed) {
    RemoveDeadNodes(graph);
    graph.SortTopologically();
  }
  return changed;
}

}  // namespace requant
