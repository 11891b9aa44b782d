#include "ops/elementwise/elementwise.h"

#include "base/error.h"
#include "base/str_cat.h"

namespace requant {

RowPlan PlanRows(const Shape& out, std::initializer_list<const Shape*> inputs) {
  // Computes row-major steps of every input, aligned at the last dimension of `out`.
  std::vector<RowPlan::Axis> all(out.size());
  for (size_t d = 0; d < out.size(); ++d) all[d] = {out[d], {}};
  RowPlan plan{{}, NumElements(out)};
  size_t slot = 0;
  for (const Shape* shape : inputs) {
    int64_t step = 1;
    for (size_t back = 0; back < shape->size(); ++back) {
      const int64_t size = (*shape)[shape->size() - 1 - back];
      const bool inside = back < out.size();
      if (size != 1 && (!inside || size != out[out.size() - 1 - back])) {
        Fail(ErrorCode::kShapeMismatch, StrCat("shape ", ShapeToString(*shape),
                                               " cannot be broadcast to ", ShapeToString(out)));
      }
      if (inside) all[out.size() - 1 - back].step[slot] = size == 1 ? 0 : step;
      // an empty output is not walked, and its other sizes may be huge
      if (plan.count != 0) step *= size;
    }
    ++slot;
  }
  for (const RowPlan::Axis& axis : all) {
    if (axis.size == 1) continue;
    bool merges = !plan.axes.empty();
    for (size_t i = 0; merges && i < kMaxRowInputs; ++i) {
      merges = plan.axes.back().step[i] == axis.step[i] * axis.size;
    }
    if (merges) {
      plan.axes.back() = {plan.axes.back().size * axis.size, axis.step};
    } else {
      plan.axes.push_back(axis);
    }
  }
  if (plan.axes.empty()) plan.axes.push_back({1, {}});
  return plan;
}

void WalkRows(const RowPlan& plan, void (*body)(void* self, const RowStep& row), void* self) {
  if (plan.count == 0) return;
  const RowPlan::Axis& inner = plan.axes.back();
  const size_t outer = plan.axes.size() - 1;
  std::vector<int64_t> index(outer, 0);
  RowStep row{0, inner.size, {}, inner.step};
  while (true) {
    body(self, row);
    row.output += inner.size;
    size_t axis = outer;
    while (true) {
      if (axis == 0) return;
      const RowPlan::Axis& turning = plan.axes[--axis];
      const bool wraps = ++index[axis] == turning.size;
      for (size_t i = 0; i < kMaxRowInputs; ++i) {
        row.input[i] += wraps ? -(turning.size - 1) * turning.step[i] : turning.step[i];
      }
      if (!wraps) break;
      index[axis] = 0;
    }
  }
}

std::vector<double> Doubles(const Tensor& tensor) {
  std::vector<double> out;
  const bool visited = VisitDType(tensor.dtype(), [&](auto tag) {
    const auto* from = static_cast<const decltype(tag)*>(tensor.raw());
    out.resize(static_cast<size_t>(tensor.count()));
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<double>(from[i]);
  });
  return visited ? out : tensor.ToDoubles();
}

}  // namespace requant
