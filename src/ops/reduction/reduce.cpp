// Reductions over axes (onnx docs/Operators.md).
#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/elementwise/elementwise.h"
#include "ops/infer_util.h"
#include "ops/table.h"

namespace requant {
namespace {

enum class Reduction : uint8_t {
  kSum,
  kMean,
  kMax,
  kMin,
  kProd,
  kL1,
  kL2,
  kSumSquare,
  kLogSum,
  kLogSumExp,
};

struct ReductionName {
  const char* name;
  Reduction reduction;
};

constexpr ReductionName kNames[] = {
    {"ReduceSum", Reduction::kSum},       {"ReduceMean", Reduction::kMean},
    {"ReduceMax", Reduction::kMax},       {"ReduceMin", Reduction::kMin},
    {"ReduceProd", Reduction::kProd},     {"ReduceL1", Reduction::kL1},
    {"ReduceL2", Reduction::kL2},         {"ReduceSumSquare", Reduction::kSumSquare},
    {"ReduceLogSum", Reduction::kLogSum}, {"ReduceLogSumExp", Reduction::kLogSumExp},
};

Reduction ReductionOf(const Node& node) {
  for (const ReductionName& row : kNames) {
    if (node.op_type == row.name) return row.reduction;
  }
  Fail(ErrorCode::kInternal, StrCat("no reduction for ", node.op_type));
}

// --- shapes

/// Which dimensions are reduced; an absent or empty list means all, or none with
/// noop_with_empty_axes.
std::vector<bool> ReducedDims(const AttributeMap& attributes, const ListArgument& axes,
                              size_t rank) {
  const bool listed = axes.known() && !axes.values.empty();
  const bool none = !listed && attributes.Int("noop_with_empty_axes", 0) != 0;
  std::vector<bool> reduced(rank, !listed && !none);
  if (listed) {
    for (const int64_t axis : NormalizeAxes(axes.values, static_cast<int64_t>(rank))) {
      reduced[static_cast<size_t>(axis)] = true;
    }
  }
  return reduced;
}

template <typename AnyShape>
AnyShape ReducedShape(const AnyShape& shape, const std::vector<bool>& reduced, bool keep) {
  AnyShape out;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (!reduced[i]) {
      out.push_back(shape[i]);
    } else if (keep) {
      out.push_back(1);
    }
  }
  return out;
}

void InferReduce(InferContext& context) {
  const Reduction reduction = ReductionOf(context.node);
  const bool extreme = reduction == Reduction::kMax || reduction == Reduction::kMin;
  if (!extreme || context.inputs[0].dtype != DType::kBool) RequireNumeric(context, 0);
  const bool keep = context.attributes().Int("keepdims", 1) != 0;
  const ListArgument axes = ReadList(context, "axes", 1);
  std::optional<SymbolicShape> shape;
  if (const SymbolicShape* x = context.shape(0)) {
    if (axes.state != ListArgument::State::kUnknown) {
      shape = ReducedShape(*x, ReducedDims(context.attributes(), axes, x->size()), keep);
    } else if (keep) {
      shape = SymbolicShape(x->size());  // keepdims keeps the rank, whatever the axes
    }
  }
  SetOutput(context, 0, context.inputs[0].dtype, std::move(shape));
}

// --- values

/// Row-major offsets of all index combinations of the dimensions where reduced[i] == which, for a
/// shape without zeros.
std::vector<int64_t> Offsets(const Shape& shape, const std::vector<bool>& reduced, bool which) {
  std::vector<int64_t> offsets = {0};
  int64_t step = 1;
  // From the innermost dimension outwards, each dimension repeats the list at its own step.
  for (size_t d = shape.size(); d-- > 0;) {
    if (reduced[d] == which) {
      const std::vector<int64_t> inner = std::move(offsets);
      offsets.clear();
      offsets.reserve(inner.size() * static_cast<size_t>(shape[d]));
      for (int64_t i = 0; i < shape[d]; ++i) {
        for (const int64_t offset : inner) offsets.push_back(offset + i * step);
      }
    }
    step *= shape[d];
  }
  return offsets;
}

/// The type of sums and products: double for floats, modulo 2^64 for integers of A (int64 or
/// uint64).
template <typename A>
using WrappingOf = std::conditional_t<std::is_floating_point_v<A>, double, uint64_t>;

/// Truncates the result of a real function, such as a square root, for integers.
template <typename A>
A FromReal(double value) {
  if constexpr (std::is_floating_point_v<A>) {
    return value;
  } else {
    if (!(value > static_cast<double>(std::numeric_limits<A>::lowest()))) {
      return std::numeric_limits<A>::lowest();
    }
    if (value >= static_cast<double>(std::numeric_limits<A>::max())) {
      return std::numeric_limits<A>::max();
    }
    return static_cast<A>(value);
  }
}

/// The offsets that reduce to one element. It is walked by pointers, since iterators would be
/// function calls.
struct Places {
  const int64_t* first;
  size_t count;
  const int64_t* begin() const { return first; }
  const int64_t* end() const { return first + count; }
};

template <typename A>
A Extreme(const A* from, const Places& offsets, bool largest, A neutral) {
  if (offsets.count == 0) return neutral;
  A best = from[*offsets.first];
  for (const int64_t offset : offsets) {
    const A value = from[offset];
    if (largest ? value > best : value < best) best = value;
    if (IsNaN(value)) return value;
  }
  return best;
}

/// The reduction of no elements, which changes no other value of type T (ReduceMax-20,
/// ReduceMin-20).
template <typename A, typename T>
A NeutralOf(bool largest) {
  using Limits = std::numeric_limits<T>;
  if constexpr (Limits::has_infinity) {
    return largest ? -Limits::infinity() : Limits::infinity();
  } else {
    return static_cast<A>(largest ? Limits::lowest() : Limits::max());
  }
}

/// log(sum(e^x)) without overflow: the largest x is factored out first.
template <typename A>
double LogSumExp(const A* from, const Places& offsets) {
  double largest = -std::numeric_limits<double>::infinity();
  for (const int64_t offset : offsets) {
    largest = std::max(largest, static_cast<double>(from[offset]));
  }
  if (!std::isfinite(largest)) largest = 0;
  double sum = 0;
  for (const int64_t offset : offsets) {
    sum += std::exp(static_cast<double>(from[offset]) - largest);
  }
  return std::log(sum) + largest;
}

/// One output element: the reduction of from[offsets...]; A is the class to compute in.
template <typename A>
A Reduce(Reduction reduction, const A* from, const Places& offsets, A neutral) {
  using W = WrappingOf<A>;
  W sum{0};
  switch (reduction) {
    case Reduction::kMax:
    case Reduction::kMin:
      return Extreme(from, offsets, reduction == Reduction::kMax, neutral);
    case Reduction::kLogSumExp:
      return FromReal<A>(LogSumExp(from, offsets));
    case Reduction::kProd:
      sum = W{1};
      for (const int64_t offset : offsets) sum *= static_cast<W>(from[offset]);
      return static_cast<A>(sum);
    case Reduction::kL1:
      for (const int64_t offset : offsets) {
        const auto value = static_cast<W>(from[offset]);
        sum += from[offset] < A{0} ? W{0} - value : value;
      }
      return static_cast<A>(sum);
    case Reduction::kL2:
    case Reduction::kSumSquare:
      for (const int64_t offset : offsets) {
        const auto value = static_cast<W>(from[offset]);
        sum += value * value;
      }
      if (reduction == Reduction::kSumSquare) return static_cast<A>(sum);
      return FromReal<A>(std::sqrt(static_cast<double>(sum)));
    default:
      for (const int64_t offset : offsets) sum += static_cast<W>(from[offset]);
      break;
  }
  const A total = static_cast<A>(sum);
  if (reduction == Reduction::kLogSum) return FromReal<A>(std::log(static_cast<double>(total)));
  if (reduction == Reduction::kMean) {
    if constexpr (std::is_floating_point_v<A>) {
      return total / static_cast<double>(offsets.count);
    } else {
      if (offsets.count == 0) Fail(ErrorCode::kInvalidArgument, "the integer mean of nothing");
      return total / static_cast<A>(offsets.count);
    }
  }
  return total;
}

/// Whether the reduction of one element is that element. With noop_with_empty_axes and no axes, the
/// others still take squares and logarithms (ONNX, reference/ops/op_reduce_l2.py).
bool IsIdentityOfOne(Reduction reduction) {
  return reduction != Reduction::kL1 && reduction != Reduction::kL2 &&
         reduction != Reduction::kSumSquare && reduction != Reduction::kLogSum;
}

void EvaluateReduce(EvalContext& context) {
  const Tensor& x = context.input(0);
  const Reduction reduction = ReductionOf(context.node);
  const bool keep = context.attributes().Int("keepdims", 1) != 0;
  const ListArgument axes = ReadList(context, "axes", 1);
  const std::vector<bool> reduced = ReducedDims(context.attributes(), axes, x.shape().size());
  const bool listed = !axes.absent() && !axes.values.empty();
  if (!listed && context.attributes().Int("noop_with_empty_axes", 0) != 0 &&
      IsIdentityOfOne(reduction)) {
    context.outputs[0] = x;
    return;
  }
  Tensor out(x.dtype(), ReducedShape(x.shape(), reduced, keep));
  if (out.count() > 0) {
    // An empty input reduces to the neutral element in every output.
    const bool nothing = x.count() == 0;
    const std::vector<int64_t> kept =
        nothing ? std::vector<int64_t>(static_cast<size_t>(out.count()), 0)
                : Offsets(x.shape(), reduced, false);
    const std::vector<int64_t> inner =
        nothing ? std::vector<int64_t>{} : Offsets(x.shape(), reduced, true);
    const bool visited = VisitDType(x.dtype(), [&](auto tag) {
      using T = decltype(tag);
      using A =
          std::conditional_t<std::is_floating_point_v<T>, double,
                             std::conditional_t<std::is_same_v<T, uint64_t>, uint64_t, int64_t>>;
      const T* from = x.data<T>();
      T* to = out.data<T>();
      std::vector<A> values(static_cast<size_t>(x.count()));  // the functions exist for three types
      A* value = values.data();
      for (int64_t i = 0; i < x.count(); ++i) value[i] = static_cast<A>(from[i]);
      const A neutral = NeutralOf<A, T>(reduction == Reduction::kMax);
      for (size_t i = 0; i < kept.size(); ++i) {
        to[i] = static_cast<T>(
            Reduce(reduction, value + kept[i], {inner.data(), inner.size()}, neutral));
      }
    });
    if (!visited) {
      Fail(ErrorCode::kTypeMismatch, StrCat(context.node.op_type, " of ", DTypeName(x.dtype())));
    }
  }
  context.outputs[0] = std::move(out);
}

constexpr OpDef ReduceRow(const char* name, QuantRule quant = QuantRule::kFloat) {
  return {name, "", 1, 1, 2, 1, InferReduce, EvaluateReduce, quant, FusionRule::kReduction};
}

constexpr OpDef kOps[] = {
    ReduceRow("ReduceMean", QuantRule::kAveragePool),
    ReduceRow("ReduceSum"),
    ReduceRow("ReduceMax"),
    ReduceRow("ReduceMin"),
    ReduceRow("ReduceProd"),
    ReduceRow("ReduceL1"),
    ReduceRow("ReduceL2"),
    ReduceRow("ReduceSumSquare"),
    ReduceRow("ReduceLogSum"),
    ReduceRow("ReduceLogSumExp"),
};

}  // namespace

std::span<const OpDef> ReduceOps() { return kOps; }

}  // namespace requant
