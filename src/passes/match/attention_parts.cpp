#include "passes/match/attention_parts.h"

#include <algorithm>
#include <cmath>

#include "passes/rewrite.h"

namespace requant {
namespace {

constexpr double kFarBelow = -1e35;

/// The operator that computes a value as its first output, if only one node reads it.
Node* Lone(const Graph& graph, const Value* value, const char* op) {
  Node* node = value ? value->producer : nullptr;
  return node && node->Is(op) && node->output() == value && graph.SoleConsumer(value) ? node
                                                                                      : nullptr;
}

/// The operator that computes a value as its first output, whoever else reads it.
Node* ProducerOf(const Value* value, const char* op) {
  Node* node = value ? value->producer : nullptr;
  return node && node->Is(op) && node->output() == value ? node : nullptr;
}

/// x of x * c, c * x or x / c with one positive number c, by which `scale` is multiplied; else the
/// value itself.
Value* PeelScale(Value* value, double& scale) {
  Node* node = value->producer;
  if (node == nullptr || node->output() != value || (!node->Is(Op::kMul) && !node->Is(Op::kDiv))) {
    return nullptr;
  }
  for (const size_t slot : {size_t{1}, size_t{0}}) {
    Value* x = node->input(1 - slot);
    const std::optional<double> number = ScalarOperand(node->input(slot), x);
    if (!number || !(*number > 0) || !std::isfinite(*number)) continue;
    if (slot == 0 && node->Is(Op::kDiv)) continue;
    scale *= node->Is(Op::kDiv) ? 1 / *number : *number;
    return x;
  }
  return nullptr;
}

/// Reads [B, T, H, D] or [T, H, D] made of columns; sets flat or source.
void ReadColumns(Value* parts, Heads& out) {
  Node* reshape = ProducerOf(parts, "Reshape");
  if (reshape == nullptr || reshape->attributes.Int("allowzero", 0) != 0) return;
  const Tensor* target = reshape->constant(1);
  Value* x = reshape->input(0);
  if (RankOf(parts) == 3) {
    out.source = x;
    out.target = Tensor::Vector<int64_t>({1, -1, out.heads * out.width});
    return;
  }
  if (RankOf(x) == 3 && DimOf(x, 0) == DimOf(parts, 0) && DimOf(x, 1) == DimOf(parts, 1)) {
    out.flat = x;
    return;
  }
  if (target == nullptr || target->count() != 4) return;
  const std::vector<int64_t> sizes = target->ToInts();
  if (RankOf(x) == 3 && sizes[0] == 0 && sizes[1] == 0) {
    out.flat = x;
    return;
  }
  if (sizes[0] == 0 || sizes[1] == 0) return;
  out.source = x;
  out.target = Tensor::Vector<int64_t>({sizes[0], sizes[1], out.heads * out.width});
}

/// Reads [B, H, T, D] out of a packed projection of q, k and v.
bool ReadPacked(Value* value, Heads& out) {
  Value* all = nullptr;
  int64_t index = -1;
  if (const Node* pick = ProducerOf(value, "Gather")) {
    const Tensor* place = pick->constant(1);
    if (pick->attributes.Int("axis", 0) != 0 || place == nullptr || place->rank() != 0)
      return false;
    index = place->AsInt64(0);
    all = pick->input(0);
  } else if (const Node* squeeze = ProducerOf(value, "Squeeze")) {
    const Value* part = squeeze->input(0);
    const Node* split = part ? part->producer : nullptr;
    if (split == nullptr || !split->Is(Op::kSplit) || split->attributes.Int("axis", 0) != 0 ||
        split->outputs.size() != 3 || RankOf(part) != 5 || DimOf(part, 0) != Dim(1)) {
      return false;
    }
    std::vector<int64_t> axes = squeeze->attributes.Ints("axes");
    if (squeeze->constant(1)) axes = squeeze->constant(1)->ToInts();
    if (axes != std::vector<int64_t>{0}) return false;
    index = std::find(split->outputs.begin(), split->outputs.end(), part) - split->outputs.begin();
    all = split->input(0);
  }
  Node* turn = ProducerOf(all, "Transpose");
  if (turn == nullptr || !HasPerm(*turn, {2, 0, 3, 1, 4}) || index < 0 || index > 2) return false;
  Value* parts = turn->input(0);
  Node* reshape = ProducerOf(parts, "Reshape");
  if (reshape == nullptr || RankOf(parts) != 5 || DimOf(parts, 2) != Dim(3)) return false;
  Value* x = reshape->input(0);
  const Tensor* target = reshape->constant(1);
  const bool same =
      RankOf(x) == 3 && DimOf(x, 0) == DimOf(parts, 0) && DimOf(x, 1) == DimOf(parts, 1);
  const bool kept = RankOf(x) == 3 && target && target->AsInt64(0) == 0 && target->AsInt64(1) == 0;
  if (!same && !kept) return false;
  out.flat = x;
  out.slice = index;
  return true;
}

/// k [B, H, T, D] of a value [B, H, D, T] that is turned as matrices, as onnxscript writes it:
///   Reshape(Transpose(Reshape(k, [B * H, T, D]), 0 2 1), [B, H, D, T])
Value* PeelFlatTurn(const Value* value) {
  const Node* apart = ProducerOf(value, "Reshape");
  const Node* turn = apart ? ProducerOf(apart->input(0), "Transpose") : nullptr;
  if (turn == nullptr || RankOf(value) != 4 || !HasPerm(*turn, {0, 2, 1})) return nullptr;
  const Node* joined = ProducerOf(turn->input(0), "Reshape");
  Value* k = joined ? joined->input(0) : nullptr;
  if (k == nullptr || RankOf(k) != 4 || RankOf(turn->input(0)) != 3) return nullptr;
  const bool turned = DimOf(k, 0) == DimOf(value, 0) && DimOf(k, 1) == DimOf(value, 1) &&
                      DimOf(k, 2) == DimOf(value, 3) && DimOf(k, 3) == DimOf(value, 2) &&
                      DimOf(k, 2) == DimOf(turn->input(0), 1) &&
                      DimOf(k, 3) == DimOf(turn->input(0), 2);
  return turned ? k : nullptr;
}

}  // namespace

Perms PermsOf(int64_t rank) {
  if (rank == 3) return {{1, 0, 2}, {1, 2, 0}, {0, 2, 1}};
  return {{0, 2, 1, 3}, {0, 2, 3, 1}, {0, 1, 3, 2}};
}

std::optional<Heads> ReadHeads(Value* value, int64_t rank, bool transposed, double* scale) {
  const Perms perms = PermsOf(rank);
  std::optional<bool> tokens_first;  // whether [B, T, H, D] was seen instead of [B, H, T, D]
  bool across = transposed;
  Heads out;
  for (;;) {
    if (value == nullptr || RankOf(value) != rank || !IsFloat32(value)) return {};
    if (scale) {
      if (Value* x = PeelScale(value, *scale)) {
        value = x;
        continue;
      }
    }
    Node* turn = tokens_first.has_value() ? nullptr : ProducerOf(value, "Transpose");
    if (turn && across && HasPerm(*turn, perms.matrix)) {
      across = false;
      value = turn->input(0);
      continue;
    }
    if (turn && HasPerm(*turn, across ? perms.both : perms.heads)) {
      // Behind a scale the value is not the operand itself.
      if (scale == nullptr) out.by_head = value;
      across = false;
      tokens_first = true;
      value = turn->input(0);
      continue;
    }
    Value* turned = across && !tokens_first ? PeelFlatTurn(value) : nullptr;
    if (turned) {
      across = false;
      value = turned;
      continue;
    }
    break;
  }
  if (across) return {};
  const auto last = static_cast<size_t>(rank) - 1;
  const Dim& heads = DimOf(value, tokens_first ? last - 1 : last - 2);
  const Dim& width = DimOf(value, last);
  if (!heads.known() || !width.known() || heads.value < 1 || width.value < 1) return {};
  out.heads = heads.value;
  out.width = width.value;
  if (tokens_first) {
    out.by_token = value;
    ReadColumns(value, out);
  } else {
    out.by_head = value;
    if (rank == 4) ReadPacked(value, out);
  }
  return out;
}

Repeated ReadRepeated(Value* value) {
  const Repeated once{value, 1};
  if (value == nullptr) return once;
  const Node* join = RankOf(value) == 4 ? ProducerOf(value, "Reshape") : nullptr;
  const Value* copies = join ? join->input(0) : nullptr;
  const Node* repeat = ProducerOf(copies, "Expand");
  if (repeat == nullptr) repeat = ProducerOf(copies, "Tile");
  const Value* single = repeat ? repeat->input(0) : nullptr;
  const Node* apart = ProducerOf(single, "Unsqueeze");
  if (apart == nullptr) apart = ProducerOf(single, "Reshape");
  Value* source = apart ? apart->input(0) : nullptr;
  if (source == nullptr || RankOf(source) != 4 || RankOf(single) != 5 || RankOf(copies) != 5) {
    return once;
  }
  for (size_t axis = 0; axis < 4; ++axis) {
    const size_t shifted = axis < 2 ? axis : axis + 1;
    const Dim& size = DimOf(source, axis);
    if (!size.known() || size != DimOf(single, shifted) || size != DimOf(copies, shifted) ||
        (axis != 1 && size != DimOf(value, axis))) {
      return once;
    }
  }
  const Dim& times = DimOf(copies, 2);
  const Dim& heads = DimOf(source, 1);
  if (DimOf(single, 2) != Dim(1) || !times.known() || times.value < 1 ||
      DimOf(value, 1) != Dim(heads.value * times.value)) {
    return once;
  }
  return {source, times.value};
}

std::optional<Scores> ReadScores(const Graph& graph, Value* value) {
  Scores out;
  for (int steps = 0; steps < 8; ++steps) {
    if (Node* where = Lone(graph, value, "Where")) {
      bool found = false;
      for (const size_t slot : {size_t{2}, size_t{1}}) {
        const std::optional<double> far = ScalarOf(where->input(slot));
        if (!far || !(*far <= kFarBelow)) continue;
        out.masks.push_back({where->inputs[slot], where->inputs[0], slot == 1});
        value = where->inputs[3 - slot];
        found = true;
        break;
      }
      if (!found) return {};
      continue;
    }
    Node* sum = Lone(graph, value, "Add");
    if (sum == nullptr) break;
    // The side that leads to a product is the scores; the mask may have any number of dimensions.
    bool found = false;
    for (const size_t slot : {size_t{0}, size_t{1}}) {
      Value* side = sum->inputs[slot];
      const Node* producer = side ? side->producer : nullptr;
      if (producer == nullptr || side->is_constant() || RankOf(side) != RankOf(value)) continue;
      if (!producer->Is(Op::kMatMul) && !producer->Is(Op::kMul) && !producer->Is(Op::kDiv) &&
          !producer->Is(Op::kAdd) && !producer->Is(Op::kWhere) && !producer->Is("Tanh")) {
        continue;
      }
      if (!ReadScores(graph, side)) continue;
      out.masks.push_back({sum->inputs[1 - slot], nullptr, false});
      value = side;
      found = true;
      break;
    }
    if (!found) return {};
  }
  const auto peel = [&] {
    double scale = 1;
    while (value && graph.SoleConsumer(value)) {
      Value* x = PeelScale(value, scale);
      if (x == nullptr) break;
      value = x;
    }
    return scale;
  };
  out.scale = peel();
  if (Node* tanh = Lone(graph, value, "Tanh")) {
    out.softcap = out.scale;
    value = tanh->input(0);
    out.scale *= peel();
  }
  out.product = Lone(graph, value, "MatMul");
  if (out.product == nullptr || !IsFloat32(value)) return {};
  return out;
}

}  // namespace requant
