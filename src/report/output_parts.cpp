#include "report/output_parts.h"

#include <algorithm>

namespace requant {
namespace {

int64_t RankOf(const Value& value) {
  return value.type.shape ? static_cast<int64_t>(value.type.shape->size()) : -1;
}

/// The axis that a Concat joins along, not negative; -1 for an unknown rank.
int64_t AxisOf(const Node& concat) {
  const int64_t rank = RankOf(*concat.outputs[0]);
  const int64_t axis = concat.attributes.Int("axis", 0);
  return rank < 0 ? -1 : axis < 0 ? axis + rank : axis;
}

void Collect(const Node& concat, int64_t axis, std::vector<OutputPart>& parts) {
  for (const Value* input : concat.inputs) {
    const Node* inner = input->producer;
    if (inner && inner->Is(Op::kConcat) && AxisOf(*inner) == axis) {
      Collect(*inner, axis, parts);
      continue;
    }
    const bool known =
        RankOf(*input) > axis && (*input->type.shape)[static_cast<size_t>(axis)].known();
    parts.push_back(
        {input->name, known ? (*input->type.shape)[static_cast<size_t>(axis)].value : -1});
  }
}

/// The position of an axis behind a node that only moves whole axes or divides others; -1 if it has
/// none.
int64_t AxisBehind(const Node& node, int64_t axis) {
  const int64_t rank = RankOf(*node.inputs[0]);
  const int64_t new_rank = RankOf(*node.outputs[0]);
  if (rank < 0 || new_rank < 0) return -1;
  if (node.Is(Op::kIdentity)) return axis;
  if (node.Is(Op::kTranspose)) {
    const std::vector<int64_t> order = node.attributes.Ints("perm");
    if (order.empty()) return rank - 1 - axis;
    return std::find(order.begin(), order.end(), axis) - order.begin();
  }
  // A Reshape keeps the axis if it keeps all dimensions before it, or all behind it.
  const SymbolicShape& from = *node.inputs[0]->type.shape;
  const SymbolicShape& to = *node.outputs[0]->type.shape;
  const auto same = [&](int64_t at, int64_t new_at) {
    return from[static_cast<size_t>(at)] == to[static_cast<size_t>(new_at)];
  };
  bool front = axis < new_rank;
  for (int64_t i = 0; front && i <= axis; ++i) front = same(i, i);
  if (front) return axis;
  const int64_t behind = rank - axis;
  bool back = behind <= new_rank;
  for (int64_t i = 1; back && i <= behind; ++i) back = same(rank - i, new_rank - i);
  return back ? new_rank - behind : -1;
}

bool Moves(const Node& node) {
  return node.Is(Op::kIdentity) || node.Is(Op::kTranspose) || node.Is(Op::kReshape) ||
         node.Is(Op::kFlatten) || node.Is(Op::kSqueeze) || node.Is(Op::kUnsqueeze);
}

}  // namespace

OutputParts FindOutputParts(const Value& output) {
  const Value* value = &output;
  std::vector<const Node*> moves;  // from the output upwards
  while (value->producer && Moves(*value->producer)) {
    moves.push_back(value->producer);
    value = value->producer->inputs[0];
  }
  const Node* concat = value->producer;
  if (concat == nullptr || !concat->Is(Op::kConcat) || concat->inputs.size() < 2) return {};
  OutputParts found;
  const int64_t joined = AxisOf(*concat);
  found.axis = joined;
  for (auto move = moves.rbegin(); move != moves.rend() && found.axis >= 0; ++move) {
    found.axis = AxisBehind(**move, found.axis);
  }
  if (found.axis < 0) return {};
  Collect(*concat, joined, found.parts);
  return found;
}

std::vector<float> PartOf(const std::vector<float>& values, const Shape& shape,
                          const OutputParts& parts, size_t index) {
  if (parts.axis >= static_cast<int64_t>(shape.size())) return {};
  const int64_t whole = shape[static_cast<size_t>(parts.axis)];
  int64_t known = 0;
  int open = 0;
  for (const OutputPart& part : parts.parts) {
    known += std::max<int64_t>(part.size, 0);
    open += part.size < 0 ? 1 : 0;
  }
  if (open > 1 || known > whole || (open == 0 && known != whole)) return {};
  const auto size = [&](const OutputPart& part) {
    return part.size < 0 ? whole - known : part.size;
  };
  int64_t begin = 0;
  for (size_t i = 0; i < index; ++i) begin += size(parts.parts[i]);
  int64_t inner = 1;
  for (size_t i = static_cast<size_t>(parts.axis) + 1; i < shape.size(); ++i) inner *= shape[i];
  const int64_t row = whole * inner;
  const int64_t count = size(parts.parts[index]) * inner;
  std::vector<float> out;
  if (row == 0) return out;
  out.reserve(values.size() / static_cast<size_t>(row) * static_cast<size_t>(count));
  for (size_t at = 0; at < values.size(); at += static_cast<size_t>(row)) {
    const auto from = values.begin() + static_cast<std::ptrdiff_t>(at) + begin * inner;
    out.insert(out.end(), from, from + count);
  }
  return out;
}

}  // namespace requant
