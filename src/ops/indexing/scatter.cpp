// ScatterElements (and its old name Scatter), ScatterND, with the reductions of opset 16 and 18.
// Definitions: onnx docs/Operators.md.
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/infer_util.h"
#include "ops/shape/select.h"
#include "ops/table.h"

namespace requant {
namespace {

enum class Reduction : uint8_t { kNone, kAdd, kMul, kMax, kMin };

Reduction ReadReduction(const AttributeMap& attributes) {
  const std::string name = attributes.String("reduction", "none");
  if (name == "none") return Reduction::kNone;
  if (name == "add") return Reduction::kAdd;
  if (name == "mul") return Reduction::kMul;
  if (name == "max") return Reduction::kMax;
  if (name == "min") return Reduction::kMin;
  Fail(ErrorCode::kInvalidModel, StrCat("reduction '", name, "' does not exist"),
       {.hint = "use none, add, mul, max or min"});
}

/// data[at, at + count) = data reduced with updates[from, from + count).
void Combine(Tensor& data, int64_t at, const Tensor& updates, int64_t from, int64_t count,
             Reduction reduction) {
  if (reduction == Reduction::kNone) {
    const size_t element = ElementBytes(data.dtype());
    std::memcpy(static_cast<uint8_t*>(data.raw()) + static_cast<size_t>(at) * element,
                static_cast<const uint8_t*>(updates.raw()) + static_cast<size_t>(from) * element,
                static_cast<size_t>(count) * element);
    return;
  }
  const bool known = VisitDType(data.dtype(), [&](auto tag) {
    using T = decltype(tag);
    using Wide = std::conditional_t<std::is_floating_point_v<T>, T, uint64_t>;  // wraps
    T* to = static_cast<T*>(data.raw()) + at;
    const T* update = static_cast<const T*>(updates.raw()) + from;
    for (int64_t i = 0; i < count; ++i) {
      switch (reduction) {
        case Reduction::kAdd:
          to[i] = static_cast<T>(static_cast<Wide>(to[i]) + static_cast<Wide>(update[i]));
          break;
        case Reduction::kMul:
          to[i] = static_cast<T>(static_cast<Wide>(to[i]) * static_cast<Wide>(update[i]));
          break;
        case Reduction::kMax:
          to[i] = std::max(to[i], update[i]);
          break;
        default:
          to[i] = std::min(to[i], update[i]);
          break;
      }
    }
  });
  if (!known) {
    Fail(ErrorCode::kUnsupported, StrCat("scatter with a reduction of ", DTypeName(data.dtype())));
  }
}

/// The input's elements in the place of the output.
Tensor CopyOf(const Tensor& input, const EvalContext& context) {
  Tensor out = context.Output(0, input.dtype(), input.shape());
  if (out.bytes() > 0) std::memcpy(out.raw(), input.raw(), out.bytes());
  return out;
}

void InferScatterElements(InferContext& context) {
  RequireDType(context, 1, {DType::kInt32, DType::kInt64});
  RequireSameDType(context, 0, 2);
  ReadReduction(context.attributes());
  if (const SymbolicShape* input = context.shape(0)) {
    const auto rank = static_cast<int64_t>(input->size());
    NormalizeAxis(context.attributes().Int("axis", 0), rank);
    RequireRank(context, 1, rank);
    RequireRank(context, 2, rank);
  }
  SameAsInput(context);
}

void EvaluateScatterElements(EvalContext& context) {
  const Tensor& input = context.input(0);
  const Tensor& indices = context.input(1);
  const Tensor& updates = context.input(2);
  const int64_t axis = NormalizeAxis(context.attributes().Int("axis", 0), input.rank());
  const Reduction reduction = ReadReduction(context.attributes());
  bool fits = indices.rank() == input.rank() && indices.shape() == updates.shape() &&
              updates.dtype() == input.dtype();
  for (int64_t i = 0; fits && i < input.rank(); ++i) {
    fits = i == axis || indices.dim(i) <= input.dim(i);
  }
  if (!fits) {
    Fail(ErrorCode::kShapeMismatch, StrCat("ScatterElements into ", ShapeToString(input.shape()),
                                           " with indices of ", ShapeToString(indices.shape()),
                                           " and updates of ", ShapeToString(updates.shape())));
  }
  Tensor out = CopyOf(input, context);
  const Shape strides = RowMajorStrides(input.shape());
  const std::vector<int64_t> places = indices.ToInts();
  const int64_t along = strides[static_cast<size_t>(axis)];
  // Words are copied in place, since a call for each would take most of the time.
  const bool words = reduction == Reduction::kNone && ElementBytes(input.dtype()) == 4;
  auto* to = static_cast<uint32_t*>(words ? out.raw() : nullptr);
  const auto* from = static_cast<const uint32_t*>(updates.raw());
  const int64_t size = input.dim(axis);
  const size_t rank = strides.size();
  Shape at(rank, 0);  // the index in `updates`
  int64_t* const index = at.data();
  const int64_t* const dims = indices.shape().data();
  const int64_t* const steps = strides.data();
  int64_t base = 0;  // the element of `out` at that index, with 0 along the axis
  const int64_t* const place = places.data();
  for (int64_t i = 0; i < indices.count(); ++i) {
    int64_t along_axis = place[i];
    if (along_axis < 0 || along_axis >= size) {
      along_axis = ResolveIndex(along_axis, size, "ScatterElements");
    }
    const int64_t target = base + along_axis * along;
    if (words) {
      to[target] = from[i];
    } else {
      Combine(out, target, updates, i, 1, reduction);
    }
    for (size_t d = rank; d-- > 0;) {
      const int64_t step = static_cast<int64_t>(d) == axis ? 0 : steps[d];
      base += step;
      if (++index[d] < dims[d]) break;
      base -= step * index[d];
      index[d] = 0;
    }
  }
  context.outputs[0] = out;
}

void InferScatterND(InferContext& context) {
  RequireDType(context, 1, {DType::kInt64});
  RequireSameDType(context, 0, 2);
  RequireMinRank(context, 0, 1);
  RequireMinRank(context, 1, 1);
  ReadReduction(context.attributes());
  SameAsInput(context);
}

void EvaluateScatterND(EvalContext& context) {
  const Tensor& input = context.input(0);
  const Tensor& indices = context.input(1);
  const Tensor& updates = context.input(2);
  const Reduction reduction = ReadReduction(context.attributes());
  const int64_t depth = indices.rank() > 0 ? indices.dim(indices.rank() - 1) : 0;
  bool fits = depth >= 1 && depth <= input.rank() && updates.dtype() == input.dtype();
  if (fits) {
    Shape expected(indices.shape().begin(), indices.shape().end() - 1);
    expected.insert(expected.end(), input.shape().begin() + depth, input.shape().end());
    fits = updates.shape() == expected;
  }
  if (!fits) {
    Fail(ErrorCode::kShapeMismatch, StrCat("ScatterND into ", ShapeToString(input.shape()),
                                           " with indices of ", ShapeToString(indices.shape()),
                                           " and updates of ", ShapeToString(updates.shape())));
  }
  Tensor out = CopyOf(input, context);
  const Shape strides = RowMajorStrides(input.shape());
  const int64_t slice = strides[static_cast<size_t>(depth) - 1];
  for (int64_t i = 0; i < indices.count() / depth && updates.count() > 0; ++i) {
    int64_t target = 0;
    for (int64_t d = 0; d < depth; ++d) {
      target += ResolveIndex(indices.AsInt64(i * depth + d), input.dim(d), "ScatterND") *
                strides[static_cast<size_t>(d)];
    }
    Combine(out, target, updates, i * slice, slice, reduction);
  }
  context.outputs[0] = out;
}

constexpr OpDef kRows[] = {
    {"Scatter", "", 9, 3, 3, 1, InferScatterElements, EvaluateScatterElements, QuantRule::kFloat},
    {"ScatterElements", "", 11, 3, 3, 1, InferScatterElements, EvaluateScatterElements,
     QuantRule::kFloat},
    {"ScatterND", "", 11, 3, 3, 1, InferScatterND, EvaluateScatterND, QuantRule::kFloat},
};

}  // namespace

std::span<const OpDef> ScatterOps() { return kRows; }

}  // namespace requant
