#include "passes/match/attention_mask.h"

#include <array>
#include <optional>

#include "passes/rewrite.h"

namespace requant {
namespace {

/// A value and one of its axes, whose size matters.
struct Extent {
  const Value* value = nullptr;
  int64_t axis = 0;
};

/// Follows a size to its origin: through transposes, factors, and products.
Extent Origin(Extent extent) {
  for (;;) {
    const Node* node = extent.value->producer;
    if (node == nullptr || node->output() != extent.value) return extent;
    const int64_t rank = RankOf(extent.value);
    if (node->Is(Op::kTranspose)) {
      const std::vector<int64_t> perm = node->attributes.Ints("perm");
      if (static_cast<int64_t>(perm.size()) != rank) return extent;
      extent = {node->inputs[0], perm[static_cast<size_t>(extent.axis)]};
    } else if (node->Is(Op::kMatMul) && extent.axis >= rank - 2 && rank >= 2 &&
               RankOf(node->inputs[0]) == rank && RankOf(node->inputs[1]) == rank) {
      extent.value = node->inputs[extent.axis == rank - 1 ? 1 : 0];
    } else if (node->Is(Op::kMul) || node->Is(Op::kDiv)) {
      const size_t number = ScalarOf(node->inputs[1]) ? 1 : 0;
      if (!ScalarOf(node->inputs[number]) || RankOf(node->inputs[1 - number]) != rank) {
        return extent;
      }
      extent.value = node->inputs[1 - number];
    } else {
      return extent;
    }
  }
}

bool IsSame(const Extent& a, const Extent& b) {
  const Extent x = Origin(a);
  const Extent y = Origin(b);
  if (x.value == y.value && x.axis == y.axis) return true;
  const auto dim = [](const Extent& extent) {
    const auto& shape = extent.value->type.shape;
    return shape ? (*shape)[static_cast<size_t>(extent.axis)] : Dim();
  };
  return dim(x) == dim(y);
}

/// The value from which a one-element value takes its number, whatever its rank and integer type.
const Value* Plain(const Value* value) {
  for (;;) {
    const Node* node = value ? value->producer : nullptr;
    if (node == nullptr || (!node->Is(Op::kUnsqueeze) && !node->Is(Op::kSqueeze) &&
                            !node->Is(Op::kCast) && !node->Is(Op::kReshape))) {
      return value;
    }
    value = node->inputs[0];
  }
}

/// The value and axis of Gather(Shape(x), axis).
std::optional<Extent> LengthOf(const Value* value) {
  const Value* plain = Plain(value);
  const Node* pick = plain ? plain->producer : nullptr;
  if (pick == nullptr || !pick->Is(Op::kGather)) return {};
  const Tensor* index = pick->constant(1);
  const Node* shape = pick->inputs[0] ? pick->inputs[0]->producer : nullptr;
  if (index == nullptr || index->count() != 1 || shape == nullptr || !shape->Is(Op::kShape) ||
      shape->attributes.Has("start") || shape->attributes.Has("end")) {
    return {};
  }
  const int64_t rank = RankOf(shape->inputs[0]);
  int64_t axis = index->AsInt64(0);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return {};
  return Extent{shape->inputs[0], axis};
}

bool IsLength(const Value* value, const Extent& length) {
  const auto found = LengthOf(value);
  return found && IsSame(*found, length);
}

bool IsZero(const Value* value) {
  const Value* plain = Plain(value);
  return plain && plain->is_constant() && plain->constant.count() == 1 &&
         plain->constant.AsInt64(0) == 0;
}

}  // namespace

bool IsCutOutFor(const Value* mask, const Value* scores) {
  const int64_t rank = RankOf(mask);
  const int64_t scores_rank = RankOf(scores);
  if (rank < 2 || rank > scores_rank) return false;
  for (int64_t i = 0; i < rank - 2; ++i) {
    if ((*mask->type.shape)[static_cast<size_t>(i)] != Dim(1)) return false;
  }
  const Extent rows = {scores, scores_rank - 2};
  const Extent columns = {scores, scores_rank - 1};
  std::array<bool, 2> cut{};  // rows, columns
  const Value* value = mask;
  for (const Node* node = value->producer; node; node = value->producer) {
    if (node->Is(Op::kCast)) {
      value = node->inputs[0];
      continue;
    }
    const Tensor* axes = node->constant(3);
    const Tensor* steps = node->constant(4);
    if (!node->Is(Op::kSlice) || axes == nullptr || axes->count() != 1 ||
        (node->input(4) && (steps == nullptr || steps->AsInt64(0) != 1))) {
      return false;
    }
    const Value* start = node->inputs[1];
    const Value* end = node->inputs[2];
    int64_t axis = axes->AsInt64(0);
    if (axis < 0) axis += rank;
    bool fits = false;
    if (axis == rank - 1) fits = IsZero(start) && IsLength(end, columns);
    if (axis == rank - 2) {
      const Value* plain = Plain(start);
      const Node* less = plain ? plain->producer : nullptr;
      fits = less && less->Is(Op::kSub)
                 ? IsLength(less->inputs[0], columns) && IsLength(less->inputs[1], rows) &&
                       IsLength(end, columns)
                 : IsZero(start) && IsLength(end, rows);
    }
    if (!fits || cut[static_cast<size_t>(axis - (rank - 2))]) return false;
    cut[static_cast<size_t>(axis - (rank - 2))] = true;
    value = node->inputs[0];
  }
  // Neither side of the square is 1, so a cut that does not fit would not be repeated by
  // broadcasting.
  const auto& square = value->type.shape;
  return cut[0] && cut[1] && square && (*square)[static_cast<size_t>(rank - 2)].value > 1 &&
         (*square)[static_cast<size_t>(rank - 1)].value > 1;
}

}  // namespace requant
