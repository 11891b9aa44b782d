// CumSum and CumProd: the sum or product of all elements up to each element along an axis.
#include <algorithm>
#include <type_traits>

#include "base/error.h"
#include "ops/elementwise/elementwise.h"
#include "ops/infer_util.h"
#include "ops/table.h"

namespace requant {
namespace {

bool IsProduct(const Node& node) { return node.op_type == "CumProd"; }

void InferCumSum(InferContext& context) {
  RequireDType(context, 0,
               {DType::kFloat32, DType::kFloat64, DType::kInt32, DType::kInt64, DType::kUint32,
                DType::kUint64});
  const ListArgument axis = ReadList(context, nullptr, 1);
  if (axis.known()) {
    if (axis.values.size() != 1) {
      Fail(ErrorCode::kShapeMismatch, "the axis of CumSum must be a scalar");
    }
    if (const SymbolicShape* x = context.shape(0)) {
      NormalizeAxis(axis.values[0], static_cast<int64_t>(x->size()));
    }
  }
  SameAsInput(context);
}

/// Sums along `rows` rows of `width` elements, `stride` apart: each output adds the elements before
/// it and, unless `exclusive`, its own.
template <typename T>
void SumRows(const T* from, T* to, int64_t rows, int64_t width, int64_t stride, bool exclusive) {
  using W = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;
  if (width == 1) {
    W sum{0};
    for (int64_t row = 0; row < rows; ++row, from += stride, to += stride) {
      const W before = sum;
      sum += static_cast<W>(*from);
      *to = static_cast<T>(exclusive ? before : sum);
    }
    return;
  }
  // Adjacent lines are summed together, so that whole rows are read.
  constexpr int64_t kLines = 64;
  for (int64_t begin = 0; begin < width; begin += kLines) {
    const int64_t end = std::min(width, begin + kLines);
    W sums[kLines] = {};
    for (int64_t row = 0; row < rows; ++row) {
      const T* x = from + row * stride;
      T* y = to + row * stride;
      for (int64_t i = begin; i < end; ++i) {
        const W before = sums[i - begin];
        const W after = before + static_cast<W>(x[i]);
        sums[i - begin] = after;
        y[i] = static_cast<T>(exclusive ? before : after);
      }
    }
  }
}

template <typename T>
void MultiplyRows(const T* from, T* to, int64_t rows, int64_t width, int64_t stride,
                  bool exclusive) {
  using W = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;
  for (int64_t i = 0; i < width; ++i) {
    W product{1};
    for (int64_t row = 0; row < rows; ++row) {
      const W before = product;
      product *= static_cast<W>(from[row * stride + i]);
      to[row * stride + i] = static_cast<T>(exclusive ? before : product);
    }
  }
}

void EvaluateCumSum(EvalContext& context) {
  const Tensor& x = context.input(0);
  if (context.input(1).count() != 1) {
    Fail(ErrorCode::kShapeMismatch, "the axis of CumSum must be a scalar");
  }
  const int64_t axis = NormalizeAxis(context.input(1).AsInt64(0), x.rank());
  const bool exclusive = context.attributes().Int("exclusive", 0) != 0;
  const bool reverse = context.attributes().Int("reverse", 0) != 0;
  Tensor out = context.Output(0, x.dtype(), x.shape());
  const int64_t length = x.dim(axis);
  int64_t step = 1;  // between two elements along the axis
  for (int64_t i = axis + 1; i < x.rank(); ++i) step *= x.dim(i);
  VisitDType(x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    if constexpr (sizeof(T) >= 4) {
      const int64_t first = reverse ? (length - 1) * step : 0;
      for (int64_t base = first; length > 0 && base < x.count(); base += length * step) {
        const auto walk = IsProduct(context.node) ? MultiplyRows<T> : SumRows<T>;
        walk(x.data<T>() + base, out.data<T>() + base, length, step, reverse ? -step : step,
             exclusive);
      }
    }
  });
  context.outputs[0] = std::move(out);
}

constexpr OpDef kOps[] = {
    {"CumSum", "", 11, 2, 2, 1, InferCumSum, EvaluateCumSum, QuantRule::kFloat},
    {"CumProd", "", 26, 2, 2, 1, InferCumSum, EvaluateCumSum, QuantRule::kFloat},
};

}  // namespace

std::span<const OpDef> CumSumOps() { return kOps; }

}  // namespace requant
