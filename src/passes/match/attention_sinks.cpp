#include "passes/match/attention_sinks.h"

#include <algorithm>

#include "passes/match/attention_parts.h"
#include "passes/rewrite.h"

namespace requant {
namespace {

bool IsLastAxis(int64_t axis, int64_t rank) { return axis == -1 || axis == rank - 1; }

/// Whether the node is ReduceMax(all) along the last axis, which stays.
bool IsRowMaximum(const Node* node, const Value* all) {
  if (node == nullptr || !node->Is("ReduceMax") || node->input(0) != all) return false;
  std::vector<int64_t> axes = node->attributes.Ints("axes");
  if (node->constant(1)) axes = node->constant(1)->ToInts();
  return axes.size() == 1 && IsLastAxis(axes[0], RankOf(all)) &&
         node->attributes.Int("keepdims", 1) != 0;
}

/// The value from which its rows' maxima are subtracted; else the value itself.
Value* WithoutMaximum(const Graph& graph, Value* value) {
  const Node* less = value->producer;
  if (less == nullptr || !less->Is(Op::kSub) || !graph.SoleConsumer(value)) return value;
  Value* all = less->input(0);
  const Value* top = less->input(1);
  const bool alone = all->consumers.size() == 2 && !graph.IsOutput(all) && graph.SoleConsumer(top);
  return alone && IsRowMaximum(top->producer, all) ? all : value;
}

/// Whether the node takes all columns of a value but the last.
bool DropsLastColumn(const Node& slice) {
  const Value* whole = slice.input(0);
  const int64_t rank = RankOf(whole);
  const Tensor* start = slice.constant(1);
  const Tensor* axes = slice.constant(3);
  const Tensor* step = slice.constant(4);
  if (!slice.Is(Op::kSlice) || RankOf(slice.output()) != rank || start == nullptr ||
      start->count() != 1 || start->AsInt64(0) != 0 || axes == nullptr || axes->count() != 1 ||
      !IsLastAxis(axes->AsInt64(0), rank) ||
      (slice.input(4) && (step == nullptr || step->AsInt64(0) != 1))) {
    return false;
  }
  const auto last = static_cast<size_t>(rank) - 1;
  const Dim& from = DimOf(whole, last);
  const Dim& to = DimOf(slice.output(), last);
  return from.known() && to.known() && to.value == from.value - 1;
}

/// Whether constant sinks [B, H, S, 1] are the same for all images and queries.
bool AreUniform(const Tensor& sinks) {
  const int64_t heads = sinks.dim(1), queries = sinks.dim(2);
  const auto numbers = sinks.values<float>();
  for (int64_t i = 0; i < sinks.count(); ++i) {
    const float first = numbers[static_cast<size_t>(i / queries % heads * queries)];
    if (numbers[static_cast<size_t>(i)] != first) return false;
  }
  return true;
}

}  // namespace

std::optional<SunkScores> ReadSinks(const Graph& graph, const Node& softmax) {
  const Node* slice = graph.SoleConsumer(softmax.output());
  if (slice == nullptr || RankOf(softmax.input(0)) != 4 || !DropsLastColumn(*slice)) return {};
  Value* all = WithoutMaximum(graph, softmax.input(0));
  const Node* join = all->producer;
  if (join == nullptr || !join->Is(Op::kConcat) || join->inputs.size() != 2 ||
      !IsLastAxis(join->attributes.Int("axis", 0), 4)) {
    return {};
  }
  if (all == softmax.input(0) && !graph.SoleConsumer(all)) return {};
  Value* sinks = join->inputs[1];
  if (RankOf(sinks) != 4 || !IsFloat32(sinks) || DimOf(sinks, 3) != Dim(1)) return {};
  const Node* spread = sinks->producer;
  if (spread && spread->Is(Op::kExpand)) sinks = spread->inputs[0];
  if (RankOf(sinks) != 4 || !sinks->type.IsStatic() || DimOf(sinks, 1) != DimOf(all, 1)) return {};
  const bool uniform = sinks->is_constant()
                           ? AreUniform(sinks->constant)
                           : DimOf(sinks, 0) == Dim(1) && DimOf(sinks, 2) == Dim(1);
  if (!uniform || sinks->type.StaticShape()[1] < 1) return {};
  return SunkScores{join->inputs[0], slice->output(), sinks};
}

Value* SinksOf(Graph& graph, const Node* near, Value* sinks) {
  const int64_t heads = DimOf(sinks, 1).value;
  if (!sinks->is_constant()) {
    return AddNear(graph, near, "Reshape",
                   {sinks, AddNear(graph, near, Tensor::Vector<int64_t>({heads}))},
                   {DType::kFloat32, SymbolicShape{heads}});
  }
  const int64_t queries = sinks->constant.dim(2);
  std::vector<float> numbers;
  for (int64_t h = 0; h < heads; ++h) {
    numbers.push_back(sinks->constant.values<float>()[static_cast<size_t>(h * queries)]);
  }
  return AddNear(graph, near, Tensor::Vector<float>(numbers));
}

}  // namespace requant
