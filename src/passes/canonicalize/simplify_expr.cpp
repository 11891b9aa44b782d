// SimplifyExpr: local rewrites that remove work. Each function is one rewrite and says Before /
// After / Conditions.
// Formula: all rewrites are equal element for element: p(q(x)) = (p q)(x) for moves, x + 0 = x * 1
//   = x, clamps and casts that contain one another, Q(DQ(q)) = q of one scale.
#include <algorithm>
#include <cmath>
#include <limits>

#include "passes/canonicalize/pad_fold.h"
#include "passes/match/clip.h"
#include "passes/match/quantize_pairs.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace requant {
namespace {

bool AllAre(const std::vector<int64_t>& values, int64_t wanted) {
  return std::all_of(values.begin(), values.end(), [wanted](int64_t v) { return v == wanted; });
}

// --- Transpose

std::optional<std::vector<int64_t>> PermOf(const Node& node) {
  std::vector<int64_t> perm = node.attributes.Ints("perm");
  if (!perm.empty()) return perm;
  const int64_t rank = RankOf(node.input(0));
  if (rank < 0) return {};
  for (int64_t i = rank; i > 0; --i) perm.push_back(i - 1);
  return perm;
}

/// Before: Transpose(Transpose(x, p), q)   After: Transpose(x, p[q[i]]), or x for an identity
bool MergeTransposes(Graph& graph, Node* node) {
  if (!node->Is(Op::kTranspose)) return false;
  auto perm = PermOf(*node);
  if (!perm) return false;
  bool identity = true;
  for (size_t i = 0; i < perm->size(); ++i) {
    identity = identity && (*perm)[i] == static_cast<int64_t>(i);
  }
  if (identity) return Bypass(graph, node, node->input(0));
  const Node* inner = node->input(0)->producer;
  if (inner == nullptr || !inner->Is(Op::kTranspose)) return false;
  const auto first = PermOf(*inner);
  if (!first || first->size() != perm->size()) return false;
  for (int64_t& axis : *perm) {
    if (axis < 0 || axis >= static_cast<int64_t>(first->size())) return false;
    axis = (*first)[static_cast<size_t>(axis)];
  }
  node->attributes.Set("perm", std::move(*perm));
  graph.SetInput(node, 0, inner->input(0));
  return true;
}

// --- Reshape and its relatives

bool IsReshape(const Node& node) {
  return node.Is(Op::kReshape) || node.Is(Op::kFlatten) || node.Is(Op::kSqueeze) ||
         node.Is(Op::kUnsqueeze);
}

/// Before: Reshape(...(x)) that gives x's own shape   After: x
/// Conditions: every dimension known or of the same symbol.
bool DropReshape(Graph& graph, Node* node) {
  if (!IsReshape(*node)) return false;
  Value* x = node->input(0);
  if (SameShape(x, node->outputs[0]) && Bypass(graph, node, x)) return true;
  if (x->producer == nullptr || !IsReshape(*x->producer)) return false;
  Value* source = x->producer->input(0);
  return source && SameShape(source, node->outputs[0]) && Bypass(graph, node, source);
}

/// Before: Reshape(Reshape/Flatten/Squeeze/Unsqueeze(x), s)   After: Reshape(x, s)
/// Before: Flatten/Squeeze/Unsqueeze(the same(x))             After: Reshape(x, its own shape)
/// Conditions: s and axes constant; where s copies a dimension (0), x has the same one there; at
///   most one dimension unknown.
bool MergeReshapes(Graph& graph, Node* node) {
  if (IsReshape(*node) && !node->Is(Op::kReshape) && RankOf(node->output()) >= 0 &&
      (node->input(1) == nullptr || node->constant(1) != nullptr) && node->input(0)->producer &&
      IsReshape(*node->input(0)->producer)) {
    std::vector<int64_t> target;
    for (const Dim& dim : *node->output()->type.shape)
      target.push_back(dim.known() ? dim.value : -1);
    if (std::count(target.begin(), target.end(), -1) > 1 ||
        std::count(target.begin(), target.end(), 0) > 0) {
      return false;
    }
    node->Retype(Op::kReshape);
    node->attributes = {};
    graph.SetInput(node, 1, graph.AddConstant(node->name + "_shape", Tensor::Vector(target)));
  }
  if (!node->Is(Op::kReshape) || node->constant(1) == nullptr) return false;
  Value* middle = node->input(0);
  const Node* inner = middle->producer;
  if (inner == nullptr || !IsReshape(*inner) || inner->input(0) == nullptr) return false;
  Value* x = inner->input(0);
  const std::vector<int64_t> target = node->constant(1)->ToInts();
  for (size_t i = 0; i < target.size(); ++i) {
    if (target[i] != 0) continue;
    if (node->attributes.Int("allowzero", 0) != 0) return false;
    const bool same = x->type.shape && middle->type.shape && i < x->type.shape->size() &&
                      i < middle->type.shape->size() &&
                      (*x->type.shape)[i] == (*middle->type.shape)[i];
    if (!same) return false;
  }
  graph.SetInput(node, 0, x);
  return true;
}

// --- operators that do nothing

std::optional<std::vector<int64_t>> ListOf(const Node& node, const char* attribute, size_t slot) {
  if (node.attributes.Has(attribute)) return node.attributes.Ints(attribute);
  if (node.constant(slot)) return node.constant(slot)->ToInts();
  return {};
}

/// Whether a Slice takes everything: step 1, and the same shape before and after.
bool IsWholeSlice(const Node& node) {
  if (!SameShape(node.input(0), node.outputs[0])) return false;
  if (node.input(4) == nullptr) return true;
  return node.constant(4) && AllAre(node.constant(4)->ToInts(), 1);
}

/// Before: Slice(Slice(x, starts, ends, axes), more)   After: Slice(x, all of them)
/// Conditions: constants, step 1, other axes, opset 10 on; nobody else reads the inner one.
bool MergeSlices(Graph& graph, Node* node) {
  const Node* inner = node->input(0)->producer;
  const int64_t rank = RankOf(node->input(0));
  if (!node->Is(Op::kSlice) || inner == nullptr || !inner->Is(Op::kSlice) ||
      graph.SoleConsumer(node->input(0)) != node || rank < 0) {
    return false;
  }
  std::vector<int64_t> lists[3];  // starts, ends, axes
  for (const Node* slice : {inner, static_cast<const Node*>(node)}) {
    const Tensor* steps = slice->constant(4);
    if (slice->input(4) && (steps == nullptr || !AllAre(steps->ToInts(), 1))) return false;
    for (size_t i = 0; i < 3; ++i) {
      if (slice->constant(i + 1) == nullptr) return false;
      for (int64_t item : slice->constant(i + 1)->ToInts()) {
        if (i == 2 && item < 0) item += rank;
        lists[i].push_back(item);
      }
    }
  }
  std::vector<int64_t> axes = lists[2];
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) return false;
  graph.SetInput(node, 0, inner->input(0));
  TruncateInputs(graph, node, 1);
  for (size_t i = 0; i < 3; ++i) {
    graph.SetInput(node, i + 1, graph.AddConstant(node->name + "_slice", Tensor::Vector(lists[i])));
  }
  return true;
}

bool HasIntegerRange(DType dtype) { return IsInteger(dtype) && DTypeBits(dtype) >= 8; }

/// Whether every value of `from` is a value of `to`.
bool Widens(DType from, DType to) {
  if (from == to) return true;
  const int from_bits = DTypeBits(from);
  const int to_bits = DTypeBits(to);
  const auto is_unsigned = [](DType t) {
    return t == DType::kUint8 || t == DType::kUint16 || t == DType::kUint32 || t == DType::kUint64;
  };
  if (HasIntegerRange(from) && HasIntegerRange(to)) {
    if (is_unsigned(from)) return is_unsigned(to) ? to_bits >= from_bits : to_bits > from_bits;
    return !is_unsigned(to) && to_bits >= from_bits;
  }
  if (from == DType::kBool) return HasIntegerRange(to) || IsFloat(to);
  const int mantissa = to == DType::kFloat64 ? 53 : to == DType::kFloat32 ? 24 : 0;
  if (HasIntegerRange(from)) return from_bits - (is_unsigned(from) ? 0 : 1) <= mantissa;
  if (from == DType::kFloat16 || from == DType::kBfloat16) {
    return to == DType::kFloat32 || to == DType::kFloat64;
  }
  return from == DType::kFloat32 && to == DType::kFloat64;
}

/// Before: Cast(x) to x's own type                   After: x
/// Before: Cast(Cast(x, a), b), a holds all of x     After: Cast(x, b)
bool MergeCasts(Graph& graph, Node* node) {
  if (!node->Is(Op::kCast)) return false;
  Value* x = node->input(0);
  if (static_cast<int64_t>(x->type.dtype) == node->attributes.Int("to", 0)) {
    return Bypass(graph, node, x);
  }
  const Node* inner = x->producer;
  if (inner == nullptr || !inner->Is(Op::kCast) || inner->input(0) == nullptr) return false;
  Value* source = inner->input(0);
  if (source->type.dtype == DType::kUndefined || !Widens(source->type.dtype, x->type.dtype)) {
    return false;
  }
  graph.SetInput(node, 0, source);
  return true;
}

/// Before: Pad by 0, Slice of everything, Expand or Tile to the same shape, Concat of one,
///   AveragePool / MaxPool of 1 x 1 with stride 1     After: the input
bool DropNeutral(Graph& graph, Node* node) {
  Value* x = node->input(0);
  bool neutral = false;
  if (node->Is(Op::kPad)) {
    const auto pads = PadsOf(*node);
    neutral = pads && AllAre(*pads, 0);
  } else if (node->Is(Op::kSlice)) {
    neutral = IsWholeSlice(*node);
  } else if (node->Is(Op::kExpand)) {
    neutral = SameShape(x, node->outputs[0]);
  } else if (node->Is(Op::kTile)) {
    const auto repeats = ListOf(*node, "repeats", 1);
    neutral = repeats && AllAre(*repeats, 1);
  } else if (node->Is(Op::kConcat)) {
    neutral = node->inputs.size() == 1;
  } else if (node->Is(Op::kAveragePool) || node->Is(Op::kMaxPool)) {
    const std::vector<int64_t> kernel = node->attributes.Ints("kernel_shape");
    neutral = !kernel.empty() && AllAre(kernel, 1) && AllAre(node->attributes.Ints("strides"), 1) &&
              AllAre(node->attributes.Ints("pads"), 0);
  }
  return neutral && Bypass(graph, node, x);
}

bool IsAll(const Tensor& tensor, double wanted) {
  for (int64_t i = 0; i < tensor.count(); ++i) {
    if (tensor.AsDouble(i) != wanted) return false;
  }
  return tensor.count() > 0;
}

/// Before: x * 1, x / 1, x + 0, x - 0, Pow(x, 1), either way round where it commutes.  After: x
/// Conditions: broadcasting the constant does not change the shape of x.
bool DropNeutralOperand(Graph& graph, Node* node) {
  const bool product = node->Is(Op::kMul);
  const bool sum = node->Is(Op::kAdd);
  const bool right_one = node->Is(Op::kDiv) || node->Is(Op::kPow);
  if (!product && !sum && !right_one && !node->Is(Op::kSub)) return false;
  for (const size_t slot : {size_t{0}, size_t{1}}) {
    if (slot == 1 && !product && !sum) break;  // only a constant on the right is neutral
    Value* x = node->input(slot);
    const Tensor* constant = node->constant(1 - slot);
    if (x == nullptr || constant == nullptr || x->is_constant()) continue;
    if (x->type.dtype == DType::kUndefined || DTypeBits(constant->dtype()) < 8) continue;
    if (!IsAll(*constant, product || right_one ? 1 : 0)) continue;
    const bool keeps_shape = constant->rank() == 0 || SameShape(x, node->outputs[0]) ||
                             (constant->count() == 1 && constant->rank() <= RankOf(x));
    if (keeps_shape && Bypass(graph, node, x)) return true;
  }
  return false;
}

/// Before: a clamp of a clamp, such as Clip(Relu(x), -1, 6)   After: one, Clip(x, 0, 6)
/// Before: a clamp without bounds                             After: x
/// Conditions: float32 and constant bounds. max(min(max(min(x, h1), l1), h2), l2) is one clamp to
///   [max(l1, l2), min(h1, h2)] when that is not empty.
bool MergeClips(Graph& graph, Node* node) {
  if (!node->Is(Op::kRelu) && !node->Is(Op::kClip)) return false;
  const std::optional<ClipRange> outer = MatchClip(graph, *node);
  if (!outer) return false;
  if (std::isinf(outer->low) && std::isinf(outer->high)) return Bypass(graph, node, outer->x);
  if (outer->x->producer == nullptr) return false;
  const Node& producer = *outer->x->producer;
  if (!producer.Is(Op::kRelu) && !producer.Is(Op::kClip)) return false;
  const std::optional<ClipRange> inner = MatchClip(graph, producer);
  if (!inner) return false;
  ClipRange merged{inner->x, std::max(inner->low, outer->low), std::min(inner->high, outer->high)};
  if (merged.low > merged.high) return false;
  // If others read the inner clamp it stays, so merging gains nothing unless the outer one does
  // nothing.
  const bool idle = merged.low == inner->low && merged.high == inner->high;
  if (idle) return Bypass(graph, node, outer->x);
  if (graph.SoleConsumer(outer->x) != node) return false;
  MakeClip(graph, node, merged);
  return true;
}

bool FoldPadInto(Graph& graph, Node* node) {
  if (node->Is(Op::kSlice)) return FoldCrop(graph, node);
  return (node->Is(Op::kConv) || node->Is(Op::kAveragePool) || node->Is(Op::kMaxPool) ||
          node->Is(Op::kQLinearConv)) &&
         FoldPad(graph, node);
}

}  // namespace

bool SimplifyExpr(Graph& graph, PassContext&) {
  return RewriteNodes(graph, [](Graph& g, Node* node) {
    if (!node->domain.empty() || node->outputs.empty() || node->outputs[0] == nullptr ||
        node->input(0) == nullptr) {
      return false;
    }
    return MergeTransposes(g, node) || DropReshape(g, node) || MergeReshapes(g, node) ||
           MergeCasts(g, node) || MergeSlices(g, node) || DropNeutral(g, node) ||
           DropNeutralOperand(g, node) || DropRequantization(g, node) || MergeClips(g, node) ||
           FoldPadInto(g, node);
  });
}

}  // namespace requant
