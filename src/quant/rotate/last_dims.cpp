#include "quant/rotate/last_dims.h"

#include <algorithm>

namespace requant {
namespace {

/// The last number of a list that is a constant or a Concat with a constant at its end; 0 if there
/// is none.
int64_t LastNumber(const Value* list) {
  if (list == nullptr) return 0;
  if (!list->is_constant()) {
    const Node* maker = list->producer;
    if (maker == nullptr || !maker->Is(Op::kConcat) || maker->inputs.empty()) return 0;
    list = maker->inputs.back();
    if (list == nullptr || !list->is_constant()) return 0;
  }
  const Tensor& numbers = list->constant;
  return numbers.count() > 0 ? numbers.AsInt64(numbers.count() - 1) : 0;
}

bool KeepsLastAxis(const Node& node) {
  if (node.Is(Op::kTranspose)) {
    const std::vector<int64_t> order = node.attributes.Ints("perm");
    return !order.empty() && order.back() == static_cast<int64_t>(order.size()) - 1;
  }
  return node.Is(Op::kUnsqueeze) || node.Is(Op::kSoftmax) || node.Is(Op::kIdentity) ||
         node.Is(Op::kCast) || node.Is(Op::kNeg);
}

}  // namespace

int64_t LastDims::Of(const Value* value) {
  if (value == nullptr) return -1;
  const auto found = known_.find(value);
  if (found != known_.end()) return found->second;
  known_[value] = -1;  // in a cycle nothing is known
  return known_[value] = Find(*value);
}

int64_t LastDims::Find(const Value& value) {
  if (value.is_constant()) return value.constant.rank() > 0 ? value.constant.shape().back() : -1;
  const auto& shape = value.type.shape;
  if (shape && shape->empty()) return -1;
  if (shape && shape->back().known()) return shape->back().value;
  const Node* maker = value.producer;
  if (maker == nullptr) return -1;
  if (maker->Is(Op::kReshape) || maker->Is(Op::kExpand)) {
    const int64_t last = LastNumber(maker->input(1));
    // Expand repeats an axis of size 1 only, and 1 in its shape keeps what the input has.
    const int64_t before = maker->Is(Op::kExpand) ? Of(maker->input(0)) : -1;
    return last > 1 ? last : std::max(before, int64_t{-1});
  }
  if (maker->Is(Op::kMatMul)) return Of(maker->input(1));
  if (KeepsLastAxis(*maker)) return Of(maker->input(0));
  if (maker->Is(Op::kAdd) || maker->Is(Op::kSub) || maker->Is(Op::kMul) || maker->Is(Op::kDiv)) {
    const int64_t a = Of(maker->input(0)), b = Of(maker->input(1));
    return std::max(a, b) > 1 ? std::max(a, b) : -1;
  }
  return -1;
}

}  // namespace requant
