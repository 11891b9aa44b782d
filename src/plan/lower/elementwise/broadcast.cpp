#include "plan/lower/elementwise/broadcast.h"

#include <algorithm>

#include "ops/elementwise/elementwise.h"

namespace requant {
namespace {

constexpr int64_t kMostBlocks = 1 << 14;  // more calls would dominate the time

/// The axis along which `small` varies when its shape, aligned right with `full`, is 1 elsewhere.
std::optional<size_t> VectorAxis(const Shape& small, const Shape& full) {
  if (small.size() > full.size()) return std::nullopt;
  const size_t shift = full.size() - small.size();
  std::optional<size_t> axis;
  for (size_t i = 0; i < small.size(); ++i) {
    if (small[i] == 1) continue;
    if (axis || small[i] != full[i + shift]) return std::nullopt;
    axis = i + shift;
  }
  return axis;
}

}  // namespace

std::optional<BinaryWalk> PlanBinary(const PlanBuilder& builder, const Value* a, const Value* b,
                                     const Value* out) {
  const Shape full = out->type.StaticShape();
  const Shape shape_a = a->type.StaticShape();
  const Shape shape_b = b->type.StaticShape();
  const auto count = static_cast<size_t>(NumElements(full));
  BinaryWalk walk;
  walk.cols = count;
  const bool a_full = shape_a == full;
  if (!a_full && shape_b != full) return std::nullopt;
  const bool image = full.size() >= 3 && full.size() <= 5;
  const auto prefers_last = [&](const Value* value) {
    return !value->is_constant() && builder.LayoutOf(value) == Layout::kChannelsLast;
  };
  if (a_full && shape_b == full) {
    if (prefers_last(a) || prefers_last(b)) walk.layout = Layout::kChannelsLast;
    return walk;
  }
  const Value* big = a_full ? a : b;
  const Shape& small = a_full ? shape_b : shape_a;
  int& step = a_full ? walk.b_step : walk.a_step;
  size_t& stride = a_full ? walk.b_row_stride : walk.a_row_stride;
  size_t& big_stride = a_full ? walk.a_row_stride : walk.b_row_stride;
  if (prefers_last(big)) walk.layout = Layout::kChannelsLast;
  if (NumElements(small) == 1) {
    step = 0;
    return walk;
  }
  const auto axis = VectorAxis(small, full);
  if (!axis || count == 0) return std::nullopt;
  if (image && *axis == 1 && walk.layout == Layout::kChannelsLast) {
    walk.cols = static_cast<size_t>(full[1]);
    walk.rows = count / walk.cols;
  } else if (*axis + 1 == full.size()) {
    walk.layout = Layout::kPlain;
    walk.cols = static_cast<size_t>(full.back());
    walk.rows = count / walk.cols;
  } else if (image && *axis == 1 && full[0] == 1) {
    walk.rows = static_cast<size_t>(full[1]);
    walk.cols = count / walk.rows;
    step = 0;
    stride = 1;
  } else {
    return std::nullopt;
  }
  big_stride = walk.cols;
  return walk;
}

std::optional<BinaryWalk> PlanBlocks(const Value* a, const Value* b, const Value* out,
                                     std::vector<int64_t>& blocks) {
  const Shape shape_a = a->type.StaticShape();
  const Shape shape_b = b->type.StaticShape();
  RowPlan plan = PlanRows(out->type.StaticShape(), {&shape_a, &shape_b});
  if (plan.count == 0) return std::nullopt;
  BinaryWalk walk;
  // The kernel walks two axes. The elements of the innermost one are neighbors, or one element
  // that is stretched.
  const RowPlan::Axis cols = plan.axes.back();
  plan.axes.pop_back();
  walk.cols = static_cast<size_t>(cols.size);
  walk.a_step = static_cast<int>(cols.step[0]);
  walk.b_step = static_cast<int>(cols.step[1]);
  if (plan.axes.empty()) return walk;
  const RowPlan::Axis rows = plan.axes.back();
  walk.rows = static_cast<size_t>(rows.size);
  walk.a_row_stride = static_cast<size_t>(rows.step[0]);
  walk.b_row_stride = static_cast<size_t>(rows.step[1]);
  if (plan.count / cols.size / rows.size > kMostBlocks) return std::nullopt;
  // The other axes are enumerated as rows of one element each.
  plan.axes.back() = {1, {}};
  ForEachRow(plan, [&](const RowStep& row) {
    blocks.push_back(row.input[0]);
    blocks.push_back(row.input[1]);
  });
  return walk;
}

std::optional<BinaryWalk> PlanBroadcast(const PlanBuilder& builder, const Value* a, const Value* b,
                                        const Value* out, std::vector<int64_t>& blocks) {
  const auto walk = PlanBinary(builder, a, b, out);
  return walk ? walk : PlanBlocks(a, b, out, blocks);
}

const Tensor* ConstantAlong(const Node& binary, const Value* own, size_t axis) {
  const Tensor* other = binary.constant(binary.inputs[0] == own ? 1 : 0);
  const Shape full = own->type.StaticShape();
  if (other == nullptr || other->dtype() != DType::kFloat32 ||
      other->shape().size() > full.size()) {
    return nullptr;
  }
  const bool fits = other->count() == 1 || VectorAxis(other->shape(), full) == axis;
  return fits ? other : nullptr;
}

int WalkedOperand(PlanBuilder& builder, const Value* operand, const Value* out, Layout layout) {
  const bool full = operand->type.StaticShape() == out->type.StaticShape();
  return builder.In(operand, full ? layout : Layout::kPlain);
}

}  // namespace requant
