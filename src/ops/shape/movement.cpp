// Transpose, Concat, Slice, Split, Tile: elements move and keep their values (onnx
// docs/Operators.md).
#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "ops/infer_util.h"
#include "ops/shape/concat.h"
#include "ops/shape/select.h"
#include "ops/table.h"

namespace requant {
namespace {

std::vector<std::vector<int64_t>> WholeTensor(const Shape& shape) {
  std::vector<std::vector<int64_t>> indices;
  for (const int64_t dim : shape) indices.push_back(Sequence(dim));
  return indices;
}

// --- Transpose

std::vector<int64_t> Permutation(const AttributeMap& attributes, int64_t rank) {
  std::vector<int64_t> perm = attributes.Ints("perm");
  if (!attributes.Has("perm")) return Sequence(rank, rank - 1, -1);
  std::vector<int64_t> sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  if (sorted != Sequence(rank)) {
    Fail(ErrorCode::kInvalidModel,
         StrCat("perm ", ShapeToString(perm), " of Transpose is no order of ", rank, " axes"));
  }
  return perm;
}

void InferTranspose(InferContext& context) {
  std::optional<SymbolicShape> shape;
  if (const SymbolicShape* input = context.shape(0)) {
    shape.emplace();
    for (const int64_t axis :
         Permutation(context.attributes(), static_cast<int64_t>(input->size()))) {
      shape->push_back((*input)[static_cast<size_t>(axis)]);
    }
  } else if (context.attributes().Has("perm")) {
    shape = SymbolicShape(context.attributes().Ints("perm").size());
  }
  SetOutput(context, 0, context.inputs[0].dtype, shape);
}

void EvaluateTranspose(EvalContext& context) {
  const Tensor& input = context.input(0);
  context.outputs[0] = Permute(input, Permutation(context.attributes(), input.rank()));
}

// --- Concat

void InferConcat(InferContext& context) {
  DType dtype = DType::kUndefined;
  for (size_t slot = 0; slot < context.inputs.size(); ++slot) {
    RequireSameDType(context, 0, slot);
    if (dtype == DType::kUndefined) dtype = context.inputs[slot].dtype;
  }
  SetOutput(context, 0, dtype, ConcatShape(context, 0, 1));
}

void EvaluateConcat(EvalContext& context) {
  std::vector<const Tensor*> parts;
  for (size_t slot = 0; slot < context.inputs.size(); ++slot) {
    parts.push_back(&context.input(slot));
  }
  context.outputs[0] = Concatenate(context.node, parts);
}

// --- Slice

struct SliceArguments {
  ListArgument starts, ends, axes, steps;
  bool known() const {
    return starts.known() && ends.known() && (axes.known() || axes.absent()) &&
           (steps.known() || steps.absent());
  }
};

template <typename Context>
SliceArguments ReadSlice(const Context& context) {
  SliceArguments out{ReadList(context, "starts", 1), ReadList(context, "ends", 2),
                     ReadList(context, "axes", 3), ReadList(context, nullptr, 4)};
  if (out.starts.absent() || out.ends.absent()) {
    Fail(ErrorCode::kInvalidModel, "Slice without starts and ends");
  }
  return out;
}

struct AxisSlice {
  int64_t axis, start, end, step;
};

/// The slices, one for each axis that is named.
std::vector<AxisSlice> ListSlices(const SliceArguments& arguments, int64_t rank) {
  const size_t count = arguments.starts.values.size();
  const std::vector<int64_t> axes =
      arguments.axes.known() ? arguments.axes.values : Sequence(static_cast<int64_t>(count));
  const std::vector<int64_t> steps =
      arguments.steps.known() ? arguments.steps.values : std::vector<int64_t>(count, 1);
  if (arguments.ends.values.size() != count || axes.size() != count || steps.size() != count) {
    Fail(ErrorCode::kInvalidModel, "starts, ends, axes and steps of Slice differ in length");
  }
  NormalizeAxes(axes, rank);  // throws for a duplicate
  std::vector<AxisSlice> out;
  for (size_t i = 0; i < count; ++i) {
    if (steps[i] == 0) Fail(ErrorCode::kInvalidModel, "Slice with a step of 0");
    // -2^63 has no positive counterpart. A step of that size can take only one element, as -(2^63 -
    // 1) does.
    const int64_t step = std::max(steps[i], -std::numeric_limits<int64_t>::max());
    out.push_back(
        {NormalizeAxis(axes[i], rank), arguments.starts.values[i], arguments.ends.values[i], step});
  }
  return out;
}

struct Picked {
  int64_t start, count;
};

/// Slice-10: negative bounds count from the end, then both are clamped. A negative step may go down
/// to and include element 0, which an `end` of -1 - dim or less asks for.
Picked PickSlice(const AxisSlice& slice, int64_t dim) {
  const int64_t start = slice.start < 0 ? slice.start + dim : slice.start;
  const int64_t end = slice.end < 0 ? slice.end + dim : slice.end;
  if (dim == 0) return {0, 0};
  if (slice.step > 0) {
    const int64_t first = std::clamp<int64_t>(start, 0, dim);
    const int64_t last = std::clamp<int64_t>(end, 0, dim);
    return {first, last > first ? (last - first - 1) / slice.step + 1 : 0};
  }
  const int64_t first = std::clamp<int64_t>(start, 0, dim - 1);
  const int64_t last = std::clamp<int64_t>(end, -1, dim - 1);
  return {first, first > last ? (first - last - 1) / -slice.step + 1 : 0};
}

void InferSlice(InferContext& context) {
  const SliceArguments arguments = ReadSlice(context);
  std::optional<SymbolicShape> shape;
  if (const SymbolicShape* input = context.shape(0)) {
    shape = SymbolicShape(input->size());
    if (arguments.known()) {
      shape = *input;
      for (const AxisSlice& slice : ListSlices(arguments, static_cast<int64_t>(input->size()))) {
        Dim& dim = (*shape)[static_cast<size_t>(slice.axis)];
        constexpr int64_t kFar = std::numeric_limits<int32_t>::max();
        const bool whole = slice.step == 1 && slice.start == 0 && slice.end >= kFar;
        if (dim.known()) {
          dim = PickSlice(slice, dim.value).count;
        } else if (!whole) {
          dim = Dim();
        }
      }
    } else if (arguments.axes.known()) {
      shape = *input;
      for (const int64_t axis :
           NormalizeAxes(arguments.axes.values, static_cast<int64_t>(input->size()))) {
        (*shape)[static_cast<size_t>(axis)] = Dim();
      }
    }
  }
  SetOutput(context, 0, context.inputs[0].dtype, shape);
}

void EvaluateSlice(EvalContext& context) {
  const Tensor& input = context.input(0);
  std::vector<std::vector<int64_t>> indices = WholeTensor(input.shape());
  for (const AxisSlice& slice : ListSlices(ReadSlice(context), input.rank())) {
    const Picked picked = PickSlice(slice, input.dim(slice.axis));
    // A single element needs no step; a huge one would overflow the sequence.
    indices[static_cast<size_t>(slice.axis)] =
        Sequence(picked.count, picked.start, picked.count > 1 ? slice.step : 1);
  }
  context.outputs[0] = SelectByAxis(input, indices);
}

// --- Split

/// Sizes along the axis. Without a list: equal parts, where only the last of Split-18's num_outputs
/// may be smaller.
std::vector<int64_t> SplitSizes(const ListArgument& split, const AttributeMap& attributes,
                                size_t outputs, int64_t dim) {
  const auto count = static_cast<int64_t>(outputs);
  if (split.known()) {
    int64_t total = 0;
    for (const int64_t size : split.values) {
      if (size < 0) Fail(ErrorCode::kInvalidModel, StrCat("Split into a part of ", size));
      total = CheckedAdd64(total, size);
    }
    if (split.values.size() != outputs || total != dim) {
      Fail(ErrorCode::kShapeMismatch, StrCat("Split of a dimension of ", dim, " into ", count,
                                             " parts of ", ShapeToString(split.values)));
    }
    return split.values;
  }
  const int64_t parts = attributes.Int("num_outputs", count);
  const int64_t size = count > 0 ? (dim + count - 1) / count : 0;
  const int64_t last = dim - size * (count - 1);
  if (parts != count || last < 0 || (last != size && !attributes.Has("num_outputs"))) {
    Fail(ErrorCode::kShapeMismatch,
         StrCat("Split of a dimension of ", dim, " into ", count, " parts is not possible"));
  }
  std::vector<int64_t> sizes(outputs, size);
  sizes.back() = last;
  return sizes;
}

void InferSplit(InferContext& context) {
  const ListArgument split = ReadList(context, "split", 1);
  const SymbolicShape* input = context.shape(0);
  std::vector<int64_t> sizes;
  size_t axis = 0;
  if (input != nullptr) {
    axis = static_cast<size_t>(
        NormalizeAxis(context.attributes().Int("axis", 0), static_cast<int64_t>(input->size())));
    const Dim& dim = (*input)[axis];
    if (split.known()) {
      const int64_t total = dim.known() ? dim.value
                                        : std::accumulate(split.values.begin(), split.values.end(),
                                                          int64_t{0}, CheckedAdd64);
      sizes = SplitSizes(split, context.attributes(), context.outputs.size(), total);
    } else if (split.absent() && dim.known()) {
      sizes = SplitSizes(split, context.attributes(), context.outputs.size(), dim.value);
    }
  }
  for (size_t i = 0; i < context.outputs.size(); ++i) {
    std::optional<SymbolicShape> shape;
    if (input != nullptr) {
      shape = *input;
      (*shape)[axis] = sizes.empty() ? Dim() : Dim(sizes[i]);
    }
    SetOutput(context, i, context.inputs[0].dtype, shape);
  }
}

void EvaluateSplit(EvalContext& context) {
  const Tensor& input = context.input(0);
  const int64_t axis = NormalizeAxis(context.attributes().Int("axis", 0), input.rank());
  const std::vector<int64_t> sizes = SplitSizes(ReadList(context, "split", 1), context.attributes(),
                                                context.outputs.size(), input.dim(axis));
  std::vector<std::vector<int64_t>> indices = WholeTensor(input.shape());
  int64_t start = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    indices[static_cast<size_t>(axis)] = Sequence(sizes[i], start);
    context.outputs[i] = SelectByAxis(input, indices);
    start += sizes[i];
  }
}

// --- Tile

void CheckRepeats(const std::vector<int64_t>& repeats, size_t rank) {
  NumElements(repeats);  // throws for a negative number
  if (repeats.size() != rank) {
    Fail(ErrorCode::kShapeMismatch,
         StrCat("Tile of ", rank, " dimensions with ", repeats.size(), " repeats"));
  }
}

void InferTile(InferContext& context) {
  const ListArgument repeats = ReadList(context, nullptr, 1);
  std::optional<SymbolicShape> shape;
  if (const SymbolicShape* input = context.shape(0)) {
    shape = SymbolicShape(input->size());
    if (repeats.known()) {
      CheckRepeats(repeats.values, input->size());
      for (size_t i = 0; i < input->size(); ++i) {
        (*shape)[i] = MultiplyDims((*input)[i], repeats.values[i]);
      }
    }
  }
  SetOutput(context, 0, context.inputs[0].dtype, shape);
}

void EvaluateTile(EvalContext& context) {
  const Tensor& input = context.input(0);
  const std::vector<int64_t> repeats = context.input(1).ToInts();
  CheckRepeats(repeats, input.shape().size());
  std::vector<std::vector<int64_t>> indices;
  Shape shape;
  for (size_t i = 0; i < repeats.size(); ++i) {
    const int64_t dim = input.shape()[i];
    indices.push_back(Sequence(CheckedMul64(dim, repeats[i])));
    for (int64_t& index : indices.back()) index %= dim;
    shape.push_back(static_cast<int64_t>(indices.back().size()));
  }
  Tensor out = context.Output(0, input.dtype(), shape);
  SelectInto(input, indices, out);
  context.outputs[0] = std::move(out);
}

constexpr OpDef kRows[] = {
    {"Transpose", "", 1, 1, 1, 1, InferTranspose, EvaluateTranspose, QuantRule::kPassive,
     FusionRule::kInjective},
    {"Concat", "", 1, 1, kVariadic, 1, InferConcat, EvaluateConcat, QuantRule::kConcat,
     FusionRule::kInjective},
    {"Slice", "", 1, 1, 5, 1, InferSlice, EvaluateSlice, QuantRule::kPassive,
     FusionRule::kInjective},
    {"Split", "", 2, 1, 2, kVariadic, InferSplit, EvaluateSplit, QuantRule::kPassive,
     FusionRule::kInjective},
    {"Tile", "", 6, 2, 2, 1, InferTile, EvaluateTile, QuantRule::kPassive, FusionRule::kInjective},
};

}  // namespace

std::span<const OpDef> MovementOps() { return kRows; }

}  // namespace requant
