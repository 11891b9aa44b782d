// Unique and Compress: select slices along an axis by their data (onnx docs/Operators.md).
#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/infer_util.h"
#include "ops/shape/select.h"
#include "ops/table.h"

namespace requant {
namespace {

// --- Unique: values, first index, inverse, counts

void InferUnique(InferContext& context) {
  SymbolicShape unknown(1);
  std::optional<SymbolicShape> values = unknown;
  if (context.attributes().Has("axis")) {
    values = context.inputs[0].shape;
    if (values) {
      const int64_t axis =
          NormalizeAxis(context.attributes().Int("axis", 0), static_cast<int64_t>(values->size()));
      (*values)[static_cast<size_t>(axis)] = Dim();
    }
  }
  SetOutput(context, 0, context.inputs[0].dtype, values);
  for (size_t slot = 1; slot < 4; ++slot) SetOutput(context, slot, DType::kInt64, unknown);
}

/// Compares `count` elements from `a` on with those from `b` on: -1, 0 or 1. NaN is the greatest.
int CompareRows(const Tensor& tensor, int64_t a, int64_t b, int64_t count) {
  int order = 0;
  const bool known = VisitDType(tensor.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const T* values = static_cast<const T*>(tensor.raw());
    const auto less = [](T x, T y) { return x < y || (x == x && y != y); };
    for (int64_t i = 0; i < count && order == 0; ++i) {
      if (less(values[a + i], values[b + i])) order = -1;
      if (less(values[b + i], values[a + i])) order = 1;
    }
  });
  if (!known) Fail(ErrorCode::kUnsupported, StrCat("Unique of ", DTypeName(tensor.dtype())));
  return order;
}

void EvaluateUnique(EvalContext& context) {
  const bool flat = !context.attributes().Has("axis");
  const Tensor x = flat ? context.input(0).Reshaped({context.input(0).count()}) : context.input(0);
  const auto axis =
      static_cast<size_t>(flat ? 0 : NormalizeAxis(context.attributes().Int("axis", 0), x.rank()));
  const int64_t count = x.shape()[axis];
  const int64_t inner = RowMajorStrides(x.shape())[axis];
  const int64_t outer = x.count() > 0 ? x.count() / count / inner : 0;
  const Tensor comparable = x.dtype() == DType::kFloat16 || x.dtype() == DType::kBfloat16
                                ? Tensor::FromVector<double>(x.ToDoubles(), x.shape())
                                : x;
  /// Compares two slices element by element: -1, 0 or 1.
  const auto compare = [&](int64_t a, int64_t b) {
    for (int64_t o = 0; o < outer; ++o) {
      const int order =
          CompareRows(comparable, (o * count + a) * inner, (o * count + b) * inner, inner);
      if (order != 0) return order;
    }
    return 0;
  };
  std::vector<int64_t> order = Sequence(count);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return compare(a, b) < 0; });
  // A group of equal slices, named by its first index.
  struct Group {
    int64_t first, size;
    size_t sorted;  // index among the sorted groups
  };
  std::vector<Group> groups;
  std::vector<size_t> group_of(static_cast<size_t>(count));
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || compare(order[i - 1], order[i]) != 0)
      groups.push_back({order[i], 0, groups.size()});
    ++groups.back().size;
    group_of[static_cast<size_t>(order[i])] = groups.size() - 1;
  }
  if (context.attributes().Int("sorted", 1) == 0) {
    std::sort(groups.begin(), groups.end(),
              [](const Group& a, const Group& b) { return a.first < b.first; });
  }
  std::vector<int64_t> place(groups.size()), firsts, sizes, inverse;
  for (size_t i = 0; i < groups.size(); ++i) {
    place[groups[i].sorted] = static_cast<int64_t>(i);
    firsts.push_back(groups[i].first);
    sizes.push_back(groups[i].size);
  }
  for (const size_t group : group_of) inverse.push_back(place[group]);
  std::vector<std::vector<int64_t>> picked;
  for (const int64_t dim : x.shape()) picked.push_back(Sequence(dim));
  picked[axis] = firsts;
  context.outputs[0] = SelectByAxis(x, picked);
  const std::vector<int64_t>* lists[] = {&firsts, &inverse, &sizes};
  for (size_t slot = 1; slot < context.outputs.size(); ++slot) {
    context.outputs[slot] = Tensor::Vector(*lists[slot - 1]);
  }
}

// --- Compress

void InferCompress(InferContext& context) {
  RequireDType(context, 1, {DType::kBool});
  RequireRank(context, 1, 1);
  std::optional<SymbolicShape> shape = SymbolicShape(1);
  if (context.attributes().Has("axis")) {
    shape = context.inputs[0].shape;
    if (shape) {
      const int64_t axis =
          NormalizeAxis(context.attributes().Int("axis", 0), static_cast<int64_t>(shape->size()));
      (*shape)[static_cast<size_t>(axis)] = Dim();
    }
  }
  SetOutput(context, 0, context.inputs[0].dtype, shape);
}

void EvaluateCompress(EvalContext& context) {
  const bool flat = !context.attributes().Has("axis");
  const Tensor x = flat ? context.input(0).Reshaped({context.input(0).count()}) : context.input(0);
  const auto axis =
      static_cast<size_t>(flat ? 0 : NormalizeAxis(context.attributes().Int("axis", 0), x.rank()));
  const Tensor& condition = context.input(1);
  std::vector<std::vector<int64_t>> picked;
  for (const int64_t dim : x.shape()) picked.push_back(Sequence(dim));
  picked[axis].clear();
  for (int64_t i = 0; i < std::min(condition.count(), x.shape()[axis]); ++i) {
    if (condition.AsInt64(i) != 0) picked[axis].push_back(i);
  }
  context.outputs[0] = SelectByAxis(x, picked);
}

constexpr OpDef kRows[] = {
    {"Compress", "", 9, 2, 2, 1, InferCompress, EvaluateCompress, QuantRule::kFloat},
    {"Unique", "", 11, 1, 1, 4, InferUnique, EvaluateUnique, QuantRule::kFloat},
};

}  // namespace

std::span<const OpDef> UniqueOps() { return kRows; }

}  // namespace requant
