// CumSum: sums of all elements up to each along an axis.
#include <type_traits>

#include "base/error.h"
#include "ops/elementwise.h"
#include "ops/infer_util.h"
#include "ops/table.h"

namespace requant {
namespace {

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

void EvaluateCumSum(EvalContext& context) {
  const Tensor& x = context.input(0);
  if (context.input(1).count() != 1) {
    Fail(ErrorCode::kShapeMismatch, "the axis of CumSum must be a scalar");
  }
  const int64_t axis = NormalizeAxis(context.input(1).AsInt64(0), x.rank());
  const bool exclusive = context.attributes().Int("exclusive", 0) != 0;
  const bool reverse = context.attributes().Int("reverse", 0) != 0;
  Tensor out(x.dtype(), x.shape());
  const int64_t length = x.dim(axis);
  int64_t step = 1;  // between two elements along the axis
  for (int64_t i = axis + 1; i < x.rank(); ++i) step *= x.dim(i);
  VisitDType(x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    using W = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;
    for (int64_t line = 0; length > 0 && line < x.count() / length; ++line) {
      const int64_t base = line / step * step * length + line % step;
      W sum{0};
      for (int64_t i = 0; i < length; ++i) {
        const int64_t at = base + (reverse ? length - 1 - i : i) * step;
        const auto value = static_cast<W>(x.data<T>()[at]);
        if (exclusive) out.data<T>()[at] = static_cast<T>(sum);
        sum += value;
        if (!exclusive) out.data<T>()[at] = static_cast<T>(sum);
      }
    }
  });
  context.outputs[0] = std::move(out);
}

constexpr OpDef kOps[] = {
    {"CumSum", "", 11, 2, 2, 1, InferCumSum, EvaluateCumSum, QuantRule::kFloat},
};

}  // namespace

std::span<const OpDef> CumSumOps() { return kOps; }

}  // namespace requant
