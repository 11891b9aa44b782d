// Shape, Size, Reshape, Flatten, Squeeze, Unsqueeze, Expand (onnx docs/Operators.md).
#include <algorithm>
#include <vector>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "ops/infer_util.h"
#include "ops/shape/select.h"
#include "ops/table.h"

namespace requant {
namespace {

SymbolicShape UnknownDims(size_t rank) { return SymbolicShape(rank); }

// --- Shape, Size

struct AxisRange {
  int64_t begin, end;
};

AxisRange ShapeRange(const AttributeMap& attributes, int64_t rank) {
  const auto place = [rank](int64_t axis) {
    return std::clamp<int64_t>(axis < 0 ? axis + rank : axis, 0, rank);
  };
  const int64_t begin = place(attributes.Int("start", 0));
  return {begin, std::max(begin, place(attributes.Int("end", rank)))};
}

void InferShape(InferContext& context) {
  SymbolicShape shape(1);
  if (const SymbolicShape* input = context.shape(0)) {
    const AxisRange range = ShapeRange(context.attributes(), static_cast<int64_t>(input->size()));
    shape[0] = range.end - range.begin;
  }
  SetOutput(context, 0, DType::kInt64, shape);
}

void EvaluateShape(EvalContext& context) {
  const Shape& shape = context.input(0).shape();
  const AxisRange range = ShapeRange(context.attributes(), static_cast<int64_t>(shape.size()));
  context.outputs[0] = Tensor::Vector<int64_t>(
      std::vector<int64_t>(shape.begin() + range.begin, shape.begin() + range.end));
}

void InferSize(InferContext& context) { SetOutput(context, 0, DType::kInt64, SymbolicShape{}); }

void EvaluateSize(EvalContext& context) {
  context.outputs[0] = Tensor::Scalar<int64_t>(context.input(0).count());
}

// --- Reshape

[[noreturn]] void CannotReshape(const SymbolicShape& input, const std::vector<int64_t>& target) {
  Fail(ErrorCode::kShapeMismatch,
       StrCat("cannot reshape ", TypeToString({DType::kUndefined, input}).substr(9), " to ",
              ShapeToString(target)),
       {.hint = "the element counts must be equal"});
}

/// The output of Reshape-14: 0 copies a dimension (unless allowzero), -1 takes the remaining
/// elements. Copied dimensions cancel out of the element counts, so an unknown batch size does not
/// prevent finding a -1; a -1 that stands for exactly the batch keeps its symbol.
SymbolicShape ReshapeTo(const SymbolicShape& input, const std::vector<int64_t>& target,
                        bool allow_zero) {
  SymbolicShape output;
  std::vector<bool> cancelled(input.size(), false);
  std::optional<size_t> inferred;
  int64_t target_known = 1;
  for (size_t i = 0; i < target.size(); ++i) {
    if (target[i] < -1) {
      Fail(ErrorCode::kInvalidModel, StrCat("Reshape to a dimension of ", target[i]));
    }
    if (target[i] == -1) {
      if (inferred) Fail(ErrorCode::kInvalidModel, "Reshape with more than one -1");
      inferred = i;
      output.emplace_back();
    } else if (target[i] == 0 && !allow_zero) {
      if (i >= input.size()) {
        Fail(ErrorCode::kShapeMismatch, StrCat("Reshape copies dimension ", i, " of an input with ",
                                               input.size(), " dimensions"));
      }
      output.push_back(input[i]);
      if (input[i].known()) {
        target_known = CheckedMul64(target_known, input[i].value);
      } else {
        cancelled[i] = true;
      }
    } else {
      output.emplace_back(target[i]);
      target_known = CheckedMul64(target_known, target[i]);
    }
  }
  int64_t input_known = 1;
  std::vector<Dim> open;  // unknown dimensions of the input that were not copied
  for (size_t i = 0; i < input.size(); ++i) {
    if (input[i].known()) {
      input_known = CheckedMul64(input_known, input[i].value);
    } else if (!cancelled[i]) {
      open.push_back(input[i]);
    }
  }
  if (!inferred) {
    // Copied dimensions cancel; the open dimensions multiply the input's known count.
    const bool impossible = open.empty()       ? input_known != target_known
                            : input_known == 0 ? target_known != 0
                                               : target_known % input_known != 0;
    if (impossible) CannotReshape(input, target);
    return output;
  }
  if (allow_zero && std::find(target.begin(), target.end(), 0) != target.end()) {
    Fail(ErrorCode::kInvalidModel, "Reshape with allowzero has both a 0 and a -1");
  }
  if (open.empty()) {
    if (target_known == 0 || input_known % target_known != 0) CannotReshape(input, target);
    output[*inferred] = input_known / target_known;
  } else if (open.size() == 1 && input_known == target_known && target_known != 0) {
    output[*inferred] = open[0];
  }
  return output;
}

void InferReshape(InferContext& context) {
  const ListArgument target = ReadList(context, "shape", 1);
  if (target.absent()) Fail(ErrorCode::kInvalidModel, "Reshape without a shape");
  std::optional<SymbolicShape> shape;
  const SymbolicShape* input = context.shape(0);
  if (target.known()) {
    const bool allow_zero = context.attributes().Int("allowzero", 0) != 0;
    if (input != nullptr) {
      shape = ReshapeTo(*input, target.values, allow_zero);
    } else {
      shape.emplace();
      for (const int64_t dim : target.values) {
        shape->push_back(dim > 0 || (dim == 0 && allow_zero) ? Dim(dim) : Dim());
      }
    }
  } else if (const auto rank = LengthOfInput(context, 1)) {
    shape = UnknownDims(*rank);
  }
  SetOutput(context, 0, context.inputs[0].dtype, shape);
}

void EvaluateReshape(EvalContext& context) {
  const Tensor& input = context.input(0);
  const ListArgument target = ReadList(context, "shape", 1);
  if (target.absent()) Fail(ErrorCode::kInvalidModel, "Reshape without a shape");
  const ValueType type{input.dtype(), ReshapeTo(ToSymbolic(input.shape()), target.values,
                                                context.attributes().Int("allowzero", 0) != 0)};
  context.outputs[0] = input.Reshaped(type.StaticShape());
}

// --- Flatten

size_t FlattenAxis(const AttributeMap& attributes, size_t rank) {
  // The axis may equal the rank: everything goes into the first dimension.
  const int64_t axis = attributes.Int("axis", 1);
  const auto signed_rank = static_cast<int64_t>(rank);
  if (axis == signed_rank) return rank;
  return static_cast<size_t>(NormalizeAxis(axis, signed_rank));
}

void InferFlatten(InferContext& context) {
  SymbolicShape shape(2);
  if (const SymbolicShape* input = context.shape(0)) {
    const size_t axis = FlattenAxis(context.attributes(), input->size());
    shape[0] = ProductOfDims(*input, 0, axis);
    shape[1] = ProductOfDims(*input, axis, input->size());
  }
  SetOutput(context, 0, context.inputs[0].dtype, shape);
}

void EvaluateFlatten(EvalContext& context) {
  const Tensor& input = context.input(0);
  const auto axis =
      static_cast<std::ptrdiff_t>(FlattenAxis(context.attributes(), input.shape().size()));
  const Shape& shape = input.shape();
  context.outputs[0] = input.Reshaped({NumElements(Shape(shape.begin(), shape.begin() + axis)),
                                       NumElements(Shape(shape.begin() + axis, shape.end()))});
}

// --- Squeeze, Unsqueeze

std::optional<SymbolicShape> Squeezed(const SymbolicShape& input, const ListArgument& axes) {
  const auto rank = static_cast<int64_t>(input.size());
  SymbolicShape out;
  if (axes.absent()) {
    for (const Dim& dim : input) {
      if (!dim.known()) return std::nullopt;  // it may be 1
      if (dim.value != 1) out.push_back(dim);
    }
    return out;
  }
  const std::vector<int64_t> squeezed = NormalizeAxes(axes.values, rank);
  for (int64_t axis = 0; axis < rank; ++axis) {
    const Dim& dim = input[static_cast<size_t>(axis)];
    if (!std::binary_search(squeezed.begin(), squeezed.end(), axis)) {
      out.push_back(dim);
    } else if (dim.known() && dim.value != 1) {
      Fail(ErrorCode::kShapeMismatch,
           StrCat("Squeeze of axis ", axis, ", whose size is ", dim.value, " and not 1"));
    }
  }
  return out;
}

void InferSqueeze(InferContext& context) {
  const ListArgument axes = ReadList(context, "axes", 1);
  std::optional<SymbolicShape> shape;
  if (const SymbolicShape* input = context.shape(0)) {
    if (axes.known() || axes.absent()) {
      shape = Squeezed(*input, axes);
    } else if (const auto count = LengthOfInput(context, 1); count && *count <= input->size()) {
      shape = UnknownDims(input->size() - *count);
    }
  }
  SetOutput(context, 0, context.inputs[0].dtype, shape);
}

void EvaluateSqueeze(EvalContext& context) {
  const Tensor& input = context.input(0);
  const ValueType type{input.dtype(),
                       Squeezed(ToSymbolic(input.shape()), ReadList(context, "axes", 1))};
  context.outputs[0] = input.Reshaped(type.StaticShape());
}

SymbolicShape Unsqueezed(const SymbolicShape& input, const std::vector<int64_t>& axes) {
  SymbolicShape out = input;
  const auto rank = static_cast<int64_t>(input.size() + axes.size());
  for (const int64_t axis : NormalizeAxes(axes, rank)) out.insert(out.begin() + axis, Dim(1));
  return out;
}

void InferUnsqueeze(InferContext& context) {
  const ListArgument axes = ReadList(context, "axes", 1);
  if (axes.absent()) Fail(ErrorCode::kInvalidModel, "Unsqueeze without axes");
  std::optional<SymbolicShape> shape;
  if (const SymbolicShape* input = context.shape(0)) {
    if (axes.known()) {
      shape = Unsqueezed(*input, axes.values);
    } else if (const auto count = LengthOfInput(context, 1)) {
      shape = UnknownDims(input->size() + *count);
    }
  }
  SetOutput(context, 0, context.inputs[0].dtype, shape);
}

void EvaluateUnsqueeze(EvalContext& context) {
  const Tensor& input = context.input(0);
  const ListArgument axes = ReadList(context, "axes", 1);
  if (axes.absent()) Fail(ErrorCode::kInvalidModel, "Unsqueeze without axes");
  const ValueType type{input.dtype(), Unsqueezed(ToSymbolic(input.shape()), axes.values)};
  context.outputs[0] = input.Reshaped(type.StaticShape());
}

// --- Expand

void InferExpand(InferContext& context) {
  const ListArgument target = ReadList(context, nullptr, 1);
  std::optional<SymbolicShape> shape;
  if (const SymbolicShape* input = context.shape(0)) {
    if (target.known()) {
      NumElements(target.values);  // throws for a negative dimension
      shape = BroadcastSymbolic(*input, ToSymbolic(target.values));
    } else if (const auto rank = LengthOfInput(context, 1)) {
      shape = UnknownDims(std::max(*rank, input->size()));
    }
  }
  SetOutput(context, 0, context.inputs[0].dtype, shape);
}

void EvaluateExpand(EvalContext& context) {
  const Tensor& input = context.input(0);
  const Shape target = context.input(1).ToInts();
  NumElements(target);
  const Shape shape = BroadcastShapes(input.shape(), target);
  NumElements(shape);
  Shape aligned(shape.size() - input.shape().size(), 1);
  aligned.insert(aligned.end(), input.shape().begin(), input.shape().end());
  std::vector<std::vector<int64_t>> indices;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    indices.push_back(Sequence(shape[axis], 0, aligned[axis] == shape[axis] ? 1 : 0));
  }
  Tensor out = context.Output(0, input.dtype(), shape);
  SelectInto(input.Reshaped(aligned), indices, out);
  context.outputs[0] = std::move(out);
}

constexpr OpDef kRows[] = {
    {"Shape", "", 1, 1, 1, 1, InferShape, EvaluateShape, QuantRule::kShape},
    {"Size", "", 1, 1, 1, 1, InferSize, EvaluateSize, QuantRule::kShape},
    {"Reshape", "", 1, 1, 2, 1, InferReshape, EvaluateReshape, QuantRule::kPassive,
     FusionRule::kInjective},
    {"Flatten", "", 1, 1, 1, 1, InferFlatten, EvaluateFlatten, QuantRule::kPassive,
     FusionRule::kInjective},
    {"Squeeze", "", 1, 1, 2, 1, InferSqueeze, EvaluateSqueeze, QuantRule::kPassive,
     FusionRule::kInjective},
    {"Unsqueeze", "", 1, 1, 2, 1, InferUnsqueeze, EvaluateUnsqueeze, QuantRule::kPassive,
     FusionRule::kInjective},
    {"Expand", "", 8, 2, 2, 1, InferExpand, EvaluateExpand, QuantRule::kPassive,
     FusionRule::kInjective},
};

}  // namespace

std::span<const OpDef> ShapeOps() { return kRows; }

}  // namespace requant
