#include "passes/fuse/combine_parallel.h"

#include <unordered_set>

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
      b.inputs.size() != a.inputs.size() || !SameAttributes(a.attributes, b.attributes)) {
    return false;
  }
  SymbolicShape first = *a.input(1)->type.shape;
  SymbolicShape second = *b.input(1)->type.shape;
  if (first.size() != second.size()) return false;
  first[static_cast<size_t>(axis)] = second[static_cast<size_t>(axis)];
  if (first != second) return false;
  // A bias must have one number for each channel.
  const Tensor* bias = b.constant(2);
  return b.inputs.size() < 3 || (bias && bias->rank() == 1 && bias->count() == Channels(b, axis));
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
    for (size_t slot = 1; slot < node->inputs.size(); ++slot) {
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
