// GatherElements, GatherND, ReverseSequence, TopK: elements picked by other tensors. Definitions:
// onnx docs/Operators.md.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/sort.h"
#include "base/str_cat.h"
#include "ops/infer_util.h"
#include "ops/select.h"
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
  const size_t element = ElementBytes(input.dtype());
  const Shape strides = RowMajorStrides(input.shape());
  const Shape steps = RowMajorStrides(indices.shape());
  Tensor out(input.dtype(), indices.shape());
  const auto* from = static_cast<const uint8_t*>(input.raw());
  auto* to = static_cast<uint8_t*>(out.raw());
  for (int64_t i = 0; i < out.count(); ++i) {
    int64_t source = 0;
    for (size_t d = 0; d < steps.size(); ++d) {
      int64_t at = i / steps[d] % indices.shape()[d];
      if (static_cast<int64_t>(d) == axis) {
        at = ResolveIndex(indices.AsInt64(i), input.dim(axis), "GatherElements");
      }
      source += at * strides[d];
    }
    std::memcpy(to + static_cast<size_t>(i) * element, from + static_cast<size_t>(source) * element,
                element);
  }
  context.outputs[0] = out;
}

// --- GatherND

struct GatherNDPlan {
  size_t batch_dims;
  size_t depth;  // how many dimensions an index tuple names
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
  const int64_t slice = strides[named - 1];  // elements that one tuple picks
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

// --- TopK

template <typename Context>
ListArgument ReadK(const Context& context) {
  if (context.attributes().Has("k")) {
    return {ListArgument::State::kKnown, {context.attributes().Int("k", 0)}};
  }
  ListArgument k = ReadList(context, nullptr, 1);
  if (k.absent() || (k.known() && k.values.size() != 1)) {
    Fail(ErrorCode::kInvalidModel, "TopK needs one k");
  }
  return k;
}

int64_t CheckK(int64_t k, int64_t dim) {
  if (k < 0 || k > dim) {
    Fail(ErrorCode::kInvalidArgument, StrCat("TopK of ", k, " out of ", dim, " elements"));
  }
  return k;
}

void InferTopK(InferContext& context) {
  RequireMinRank(context, 0, 1);
  const ListArgument k = ReadK(context);
  std::optional<SymbolicShape> shape;
  if (const SymbolicShape* input = context.shape(0)) {
    shape = *input;
    Dim& dim = (*shape)[static_cast<size_t>(
        NormalizeAxis(context.attributes().Int("axis", -1), static_cast<int64_t>(input->size())))];
    if (k.known()) CheckK(k.values[0], dim.known() ? dim.value : k.values[0]);
    dim = k.known() ? Dim(k.values[0]) : Dim();
  }
  SetOutput(context, 0, context.inputs[0].dtype, shape);
  SetOutput(context, 1, DType::kInt64, shape);
}

/// Order of T with NaN above everything, so that sorting stays well defined.
template <typename T>
bool Less(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return !std::isnan(a) && std::isnan(b);
  }
  return a < b;
}

void EvaluateTopK(EvalContext& context) {
  const Tensor& input = context.input(0);
  const int64_t axis = NormalizeAxis(context.attributes().Int("axis", -1), input.rank());
  const int64_t dim = input.dim(axis);
  const int64_t k = CheckK(ReadK(context).values[0], dim);
  const bool largest = context.attributes().Int("largest", 1) != 0;
  const bool sorted = context.attributes().Int("sorted", 1) != 0;
  Shape shape = input.shape();
  shape[static_cast<size_t>(axis)] = k;
  Tensor values(input.dtype(), shape);
  Tensor picks(DType::kInt64, shape);
  const int64_t inner = RowMajorStrides(input.shape())[static_cast<size_t>(axis)];
  const int64_t rows = input.count() > 0 ? input.count() / dim : 0;
  const size_t element = ElementBytes(input.dtype());
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t start = row / inner * dim * inner + row % inner;
    std::vector<size_t> order(static_cast<size_t>(dim));
    std::iota(order.begin(), order.end(), size_t{0});
    const bool known = VisitDType(input.dtype(), [&](auto tag) {
      const auto* from = static_cast<const decltype(tag)*>(input.raw()) + start;
      const auto at = [&](size_t i) { return from[static_cast<int64_t>(i) * inner]; };
      // Stable: of equal elements the one with the lower index comes first.
      StableSort(order, [&](size_t a, size_t b) {
        return largest ? Less(at(b), at(a)) : Less(at(a), at(b));
      });
    });
    if (!known) Fail(ErrorCode::kUnsupported, StrCat("TopK of ", DTypeName(input.dtype())));
    if (!sorted) std::sort(order.begin(), order.begin() + k);
    for (int64_t i = 0; i < k; ++i) {
      const int64_t place = row / inner * k * inner + i * inner + row % inner;
      const auto from = static_cast<int64_t>(order[static_cast<size_t>(i)]);
      std::memcpy(static_cast<uint8_t*>(values.raw()) + static_cast<size_t>(place) * element,
                  static_cast<const uint8_t*>(input.raw()) +
                      static_cast<size_t>(start + from * inner) * element,
                  element);
      picks.data<int64_t>()[place] = from;
    }
  }
  context.outputs[0] = values;
  if (context.outputs.size() > 1) context.outputs[1] = picks;
}

constexpr OpDef kRows[] = {
    {"GatherElements", "", 11, 2, 2, 1, InferGatherElements, EvaluateGatherElements,
     QuantRule::kPassive, FusionRule::kInjective},
    {"GatherND", "", 11, 2, 2, 1, InferGatherND, EvaluateGatherND, QuantRule::kPassive,
     FusionRule::kInjective},
    {"ReverseSequence", "", 10, 2, 2, 1, InferReverseSequence, EvaluateReverseSequence,
     QuantRule::kPassive, FusionRule::kInjective},
    {"TopK", "", 1, 1, 2, 2, InferTopK, EvaluateTopK, QuantRule::kFloat},
};

}  // namespace

std::span<const OpDef> GatherElementsOps() { return kRows; }

}  // namespace requant
