// GatherElements, GatherND, ReverseSequence: gather elements by other tensors (onnx
// docs/Operators.md).
#include <cstring>
#include <utility>
#include <vector>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "ops/infer_util.h"
#include "ops/shape/select.h"
#include "ops/table.h"

namespace requant {
namespace {

// --- GatherElements

void InferGatherElements(InferContext& context) {
  RequireDType(context, 1, {DType::kInt32, DType::kInt64});
  const SymbolicShape* input = context.shape(0);
  const SymbolicShape* indices = context.shape(1);
  if (input != nullptr) {
    NormalizeAxis(context.attributes().Int("axis", 0), static_cast<int64_t>(input->size()));
  }
  if (input != nullptr && indices != nullptr && input->size() != indices->size()) {
    Fail(ErrorCode::kShapeMismatch, StrCat("GatherElements of ", input->size(),
                                           " dimensions with indices of ", indices->size()));
  }
  SetOutput(context, 0, context.inputs[0].dtype, context.inputs[1].shape);
}

/// The innermost dimension of GatherElements' output.
struct PickedRow {
  const uint8_t* from;
  uint8_t* to;
  int64_t length;
  int64_t step;    // distance between neighbors' elements, besides their indices' part
  int64_t stride;  // stride of the axis in the input
  int64_t dim;     // size of the axis
  size_t element;
};

template <typename Index>
void PickRow(const PickedRow& row, int64_t begin, const Index* indices) {
  for (int64_t i = 0; i < row.length; ++i, begin += row.step) {
    int64_t index = indices[i];
    if (static_cast<uint64_t>(index) >= static_cast<uint64_t>(row.dim)) {
      index = ResolveIndex(index, row.dim, "GatherElements");
    }
    const auto source = static_cast<size_t>(begin + index * row.stride);
    if (row.element == 4) {
      // a constant size takes one instruction
      std::memcpy(row.to + i * 4, row.from + source * 4, 4);
    } else {
      std::memcpy(row.to + static_cast<size_t>(i) * row.element, row.from + source * row.element,
                  row.element);
    }
  }
}

void EvaluateGatherElements(EvalContext& context) {
  const Tensor& input = context.input(0);
  const Tensor& indices = context.input(1);
  const int64_t axis = NormalizeAxis(context.attributes().Int("axis", 0), input.rank());
  bool fits = input.rank() == indices.rank();
  for (int64_t i = 0; fits && i < input.rank(); ++i) {
    fits = i == axis || indices.dim(i) <= input.dim(i);
  }
  if (!fits) {
    Fail(ErrorCode::kShapeMismatch, StrCat("GatherElements of ", ShapeToString(input.shape()),
                                           " with indices of ", ShapeToString(indices.shape())));
  }
  Tensor out = context.Output(0, input.dtype(), indices.shape());
  const Shape strides = RowMajorStrides(input.shape());
  const int64_t last = input.rank() - 1;
  const int64_t length = last >= 0 ? indices.dim(last) : 1;
  PickedRow row{static_cast<const uint8_t*>(input.raw()),
                static_cast<uint8_t*>(out.raw()),
                length,
                axis == last ? 0 : 1,
                strides.empty() ? 1 : strides[static_cast<size_t>(axis)],
                input.rank() > 0 ? input.dim(axis) : 1,
                ElementBytes(input.dtype())};
  std::vector<int64_t> at(indices.shape().size(), 0);
  for (int64_t i = 0; i < out.count(); i += length) {
    int64_t begin = 0;
    for (int64_t d = 0; d < last; ++d) {
      const auto k = static_cast<size_t>(d);
      if (d != axis) begin += at[k] * strides[k];
    }
    if (indices.dtype() == DType::kInt64) {
      PickRow(row, begin, indices.data<int64_t>() + i);
    } else {
      PickRow(row, begin, indices.data<int32_t>() + i);
    }
    row.to += static_cast<size_t>(length) * row.element;
    for (int64_t d = last; d-- > 0;) {
      if (++at[static_cast<size_t>(d)] < indices.dim(d)) break;
      at[static_cast<size_t>(d)] = 0;
    }
  }
  context.outputs[0] = std::move(out);
}

// --- GatherND

struct GatherNDPlan {
  size_t batch_dims;
  size_t depth;  // number of dimensions that an index tuple names
};

GatherNDPlan PlanGatherND(const AttributeMap& attributes, size_t rank, size_t index_rank,
                          int64_t depth) {
  const int64_t batch = attributes.Int("batch_dims", 0);
  const auto limit = static_cast<int64_t>(rank);
  if (batch < 0 || batch >= static_cast<int64_t>(index_rank) || batch >= limit || depth < 1 ||
      depth > limit - batch) {
    Fail(ErrorCode::kShapeMismatch,
         StrCat("GatherND of ", rank, " dimensions with indices of ", index_rank, ", tuples of ",
                depth, " and batch_dims ", batch));
  }
  return {static_cast<size_t>(batch), static_cast<size_t>(depth)};
}

void InferGatherND(InferContext& context) {
  RequireDType(context, 1, {DType::kInt64});
  std::optional<SymbolicShape> shape;
  const SymbolicShape* input = context.shape(0);
  const SymbolicShape* indices = context.shape(1);
  if (input != nullptr && indices != nullptr && !indices->empty() && indices->back().known()) {
    const GatherNDPlan plan =
        PlanGatherND(context.attributes(), input->size(), indices->size(), indices->back().value);
    shape = SymbolicShape(indices->begin(), indices->end() - 1);
    shape->insert(shape->end(),
                  input->begin() + static_cast<std::ptrdiff_t>(plan.batch_dims + plan.depth),
                  input->end());
    for (size_t i = 0; i < plan.batch_dims; ++i) {
      (*shape)[i] = MergeDims((*input)[i], (*indices)[i], "the batch dimensions of GatherND");
    }
  }
  SetOutput(context, 0, context.inputs[0].dtype, shape);
}

void EvaluateGatherND(EvalContext& context) {
  const Tensor& input = context.input(0);
  const Tensor& indices = context.input(1);
  const int64_t tuple = indices.rank() > 0 ? indices.dim(indices.rank() - 1) : 0;
  const GatherNDPlan plan =
      PlanGatherND(context.attributes(), input.shape().size(), indices.shape().size(), tuple);
  Shape shape(indices.shape().begin(), indices.shape().end() - 1);
  int64_t batches = 1;
  for (size_t i = 0; i < plan.batch_dims; ++i) {
    if (shape[i] != input.shape()[i]) {
      Fail(ErrorCode::kShapeMismatch, "the batch dimensions of GatherND do not agree");
    }
    batches *= shape[i];
  }
  const size_t named = plan.batch_dims + plan.depth;
  shape.insert(shape.end(), input.shape().begin() + static_cast<std::ptrdiff_t>(named),
               input.shape().end());
  Tensor out(input.dtype(), shape);
  const Shape strides = RowMajorStrides(input.shape());
  const int64_t slice = strides[named - 1];  // elements that one tuple gathers
  const size_t bytes = static_cast<size_t>(slice) * ElementBytes(input.dtype());
  const int64_t tuples = indices.count() / tuple;
  for (int64_t i = 0; i < tuples && out.count() > 0; ++i) {
    int64_t source = 0;
    if (plan.batch_dims > 0) source = i / (tuples / batches) * strides[plan.batch_dims - 1];
    for (size_t d = 0; d < plan.depth; ++d) {
      const size_t axis = plan.batch_dims + d;
      source += ResolveIndex(indices.AsInt64(i * tuple + static_cast<int64_t>(d)),
                             input.shape()[axis], "GatherND") *
                strides[axis];
    }
    std::memcpy(
        static_cast<uint8_t*>(out.raw()) + static_cast<size_t>(i) * bytes,
        static_cast<const uint8_t*>(input.raw()) + static_cast<size_t>(source / slice) * bytes,
        bytes);
  }
  context.outputs[0] = out;
}

// --- ReverseSequence

void InferReverseSequence(InferContext& context) {
  RequireMinRank(context, 0, 2);
  RequireDType(context, 1, {DType::kInt64});
  SameAsInput(context);
}

void EvaluateReverseSequence(EvalContext& context) {
  const Tensor& input = context.input(0);
  const std::vector<int64_t> lengths = context.input(1).ToInts();
  const int64_t batch_axis = context.attributes().Int("batch_axis", 1);
  const int64_t time_axis = context.attributes().Int("time_axis", 0);
  const bool first_two = (batch_axis == 0 && time_axis == 1) || (batch_axis == 1 && time_axis == 0);
  if (input.rank() < 2 || !first_two ||
      static_cast<int64_t>(lengths.size()) != input.dim(batch_axis)) {
    Fail(ErrorCode::kShapeMismatch, "ReverseSequence with axes or lengths that do not fit");
  }
  Tensor out(input.dtype(), input.shape());
  const Shape strides = RowMajorStrides(input.shape());
  const size_t slice = static_cast<size_t>(strides[1]) * ElementBytes(input.dtype());
  for (int64_t b = 0; b < input.dim(batch_axis); ++b) {
    const int64_t length = lengths[static_cast<size_t>(b)];
    if (length < 0 || length > input.dim(time_axis)) {
      Fail(ErrorCode::kInvalidArgument, StrCat("ReverseSequence of a length of ", length));
    }
    for (int64_t t = 0; t < input.dim(time_axis); ++t) {
      const int64_t from = t < length ? length - 1 - t : t;
      const auto place = [&](int64_t time) {
        const int64_t row = batch_axis == 0 ? b : time;
        const int64_t column = batch_axis == 0 ? time : b;
        return static_cast<size_t>(row * input.dim(1) + column) * slice;
      };
      std::memcpy(static_cast<uint8_t*>(out.raw()) + place(t),
                  static_cast<const uint8_t*>(input.raw()) + place(from), slice);
    }
  }
  context.outputs[0] = out;
}

constexpr OpDef kRows[] = {
    {"GatherElements", "", 11, 2, 2, 1, InferGatherElements, EvaluateGatherElements,
     QuantRule::kPassive, FusionRule::kInjective},
    {"GatherND", "", 11, 2, 2, 1, InferGatherND, EvaluateGatherND, QuantRule::kPassive,
     FusionRule::kInjective},
    {"ReverseSequence", "", 10, 2, 2, 1, InferReverseSequence, EvaluateReverseSequence,
     QuantRule::kPassive, FusionRule::kInjective},
};

}  // namespace

std::span<const OpDef> GatherElementsOps() { return kRows; }

}  // namespace requant
