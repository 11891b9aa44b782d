#pragma once

#include <cstddef>

#include "ir/graph.h"
#include "tensor/shape.h"

namespace requant {

/// A Reshape or Expand that a pass made part of another operator, as those that split, join and
/// repeat heads.
struct UsedReshape {
  const Node* node = nullptr;  // of the prepared model
  Shape from, to;              // when the plan was made

  /// Whether every dimension of the result is the number that it was, or, as it was, that of the
  /// same axis of the input, counted from either end. What an Expand did not repeat it must not
  /// repeat.
  bool IsTheSame() const {
    const Shape now = node->input(0)->type.StaticShape();
    const Shape result = node->output()->type.StaticShape();
    if (now.size() != from.size() || result.size() != to.size()) return false;
    for (size_t i = 0; i < to.size(); ++i) {
      bool copied = false, copies = false;
      for (const size_t axis : {i, i + from.size() - to.size()}) {
        if (axis >= from.size() || to[i] != from[axis]) continue;
        copied = true;
        copies = copies || result[i] == now[axis];
      }
      const bool stays = result[i] == to[i] && !(node->Is(Op::kExpand) && copied);
      if (!stays && !copies) return false;
    }
    return true;
  }
};

}  // namespace requant
