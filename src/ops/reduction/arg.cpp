// ArgMax, ArgMin: indices of the largest and smallest elements along an axis. As in NumPy, a NaN
// counts as both.
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/infer_util.h"
#include "ops/shape/select.h"
#include "ops/table.h"

namespace requant {
namespace {

template <typename AnyShape>
AnyShape WithoutAxis(AnyShape shape, const AttributeMap& attributes, int64_t axis) {
  const auto at = shape.begin() + static_cast<std::ptrdiff_t>(axis);
  if (attributes.Int("keepdims", 1) != 0) {
    *at = 1;
  } else {
    shape.erase(at);
  }
  return shape;
}

void InferArg(InferContext& context) {
  RequireNumeric(context, 0);
  std::optional<SymbolicShape> shape;
  if (const SymbolicShape* x = context.shape(0)) {
    const int64_t axis =
        NormalizeAxis(context.attributes().Int("axis", 0), static_cast<int64_t>(x->size()));
    shape = WithoutAxis(*x, context.attributes(), axis);
  }
  SetOutput(context, 0, DType::kInt64, std::move(shape));
}

/// The best element of each of `width` adjacent lines of `count` elements. Rows across the lines
/// are read one after the other, whatever the axis.
template <typename T>
void BestOfLines(const T* from, int64_t count, int64_t width, bool largest, bool last,
                 int64_t* to) {
  constexpr int64_t kLines = 64;
  for (int64_t begin = 0; begin < width; begin += kLines) {
    const int64_t lines = width - begin < kLines ? width - begin : kLines;
    T best[kLines];
    for (int64_t i = 0; i < lines; ++i) best[i] = from[begin + i];
    for (int64_t row = 1; row < count; ++row) {
      const T* x = from + row * width + begin;
      for (int64_t i = 0; i < lines; ++i) {
        const T value = x[i];
        bool better = largest ? value > best[i] : value < best[i];
        bool equal = value == best[i];
        if constexpr (std::is_floating_point_v<T>) {
          const bool is_nan = value != value;
          const bool has_nan = best[i] != best[i];
          better = better || (is_nan && !has_nan);
          equal = equal || (is_nan && has_nan);
        }
        if (better || (last && equal)) {
          best[i] = value;
          to[begin + i] = row;
        }
      }
    }
  }
}

/// Whether `x` takes the place of the best element so far: NaN is better than any number.
template <typename T>
bool IsBetter(T x, T best, bool largest) {
  const bool better = largest ? x > best : x < best;
  if constexpr (std::is_floating_point_v<T>) return better || (x != x && best == best);
  return better;
}

/// The place of the best one of `count` adjacent elements.
template <typename T>
int64_t BestOfLine(const T* from, int64_t count, bool largest, bool last) {
  T best = from[0];
  int64_t place = 0;
  for (int64_t i = 1; i < count; ++i) {
    const T x = from[i];
    // Most elements are worse, so the tests of the others wait behind one comparison.
    if (largest ? x < best : x > best) continue;
    if (IsBetter(x, best, largest) || (last && !IsBetter(best, x, largest))) {
      best = x;
      place = i;
    }
  }
  return place;
}

void EvaluateArg(EvalContext& context) {
  const Tensor& x = context.input(0);
  const int64_t axis = NormalizeAxis(context.attributes().Int("axis", 0), x.rank());
  Tensor out(DType::kInt64, WithoutAxis(x.shape(), context.attributes(), axis));
  if (out.count() > 0) {
    if (x.count() == 0) {
      Fail(ErrorCode::kInvalidArgument, StrCat(context.node.op_type, " over no elements"));
    }
    const int64_t count = x.dim(axis);
    const int64_t width = RowMajorStrides(x.shape())[static_cast<size_t>(axis)];
    const bool largest = context.node.op_type == "ArgMax";
    const bool last = context.attributes().Int("select_last_index", 0) != 0;
    VisitDType(x.dtype(), [&](auto tag) {
      const auto* from = x.data<decltype(tag)>();
      auto* to = out.data<int64_t>();
      for (int64_t at = 0; at < out.count(); at += width) {
        if (width == 1) {
          to[at] = BestOfLine(from + at * count, count, largest, last);
        } else {
          BestOfLines(from + at * count, count, width, largest, last, to + at);
        }
      }
    });
  }
  context.outputs[0] = std::move(out);
}

constexpr OpDef kRows[] = {
    {"ArgMax", "", 1, 1, 1, 1, InferArg, EvaluateArg, QuantRule::kFloat, FusionRule::kReduction},
    {"ArgMin", "", 1, 1, 1, 1, InferArg, EvaluateArg, QuantRule::kFloat, FusionRule::kReduction},
};

}  // namespace

std::span<const OpDef> ArgOps() { return kRows; }

}  // namespace requant
