// Operators about positions of elements: EyeLike, OneHot, NonZero, Trilu (onnx docs/Operators.md).
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/elementwise/cast.h"
#include "ops/infer_util.h"
#include "ops/shape/select.h"
#include "ops/table.h"

namespace requant {
namespace {

// --- EyeLike

DType EyeDType(const AttributeMap& attributes, DType input) {
  const int64_t dtype = attributes.Int("dtype", static_cast<int64_t>(input));
  return dtype > 0 && dtype < 256 ? static_cast<DType>(dtype) : DType::kUndefined;
}

void InferEyeLike(InferContext& context) {
  RequireRank(context, 0, 2);
  SetOutput(context, 0, EyeDType(context.attributes(), context.inputs[0].dtype),
            context.inputs[0].shape);
}

void EvaluateEyeLike(EvalContext& context) {
  const Tensor& input = context.input(0);
  if (input.rank() != 2) Fail(ErrorCode::kShapeMismatch, "EyeLike takes a matrix");
  Tensor eye(DType::kInt8, input.shape());
  const int64_t k = context.attributes().Int("k", 0);
  for (int64_t row = 0; row < input.dim(0); ++row) {
    // k may be any number, so row + k is not computed.
    for (int64_t column = 0; column < input.dim(1); ++column) {
      if (column - row == k) eye.data<int8_t>()[row * input.dim(1) + column] = 1;
    }
  }
  context.outputs[0] = CastTensor(eye, EyeDType(context.attributes(), input.dtype()));
}

// --- OneHot

int64_t ScalarOf(const Tensor& tensor, const char* what) {
  if (tensor.count() != 1) {
    Fail(ErrorCode::kShapeMismatch, StrCat(what, " must be a single number"));
  }
  return CastTensor(tensor, DType::kInt64).AsInt64(0);  // saturates
}

void InferOneHot(InferContext& context) {
  std::optional<SymbolicShape> shape;
  if (const SymbolicShape* indices = context.shape(0)) {
    const int64_t axis = NormalizeAxis(context.attributes().Int("axis", -1),
                                       static_cast<int64_t>(indices->size()) + 1);
    Dim depth;
    if (const Tensor* constant = context.constant(1)) {
      const int64_t value = ScalarOf(*constant, "the depth of OneHot");
      if (value < 0) Fail(ErrorCode::kInvalidModel, StrCat("OneHot with a depth of ", value));
      depth = value;
    }
    shape = *indices;
    shape->insert(shape->begin() + axis, depth);
  }
  SetOutput(context, 0, context.inputs[2].dtype, shape);
}

void EvaluateOneHot(EvalContext& context) {
  const Tensor indices = CastTensor(context.input(0), DType::kInt64);
  const Tensor& values = context.input(2);
  const int64_t depth = ScalarOf(context.input(1), "the depth of OneHot");
  if (values.count() != 2) {
    Fail(ErrorCode::kShapeMismatch, "the values of OneHot are not [off, on]");
  }
  const int64_t axis = NormalizeAxis(context.attributes().Int("axis", -1), indices.rank() + 1);
  Shape shape = indices.shape();
  shape.insert(shape.begin() + axis, depth);
  Tensor out(values.dtype(), shape);
  const size_t element = ElementBytes(values.dtype());
  const auto* off = static_cast<const uint8_t*>(values.raw());
  auto* to = static_cast<uint8_t*>(out.raw());
  const int64_t inner = NumElements(Shape(shape.begin() + axis + 1, shape.end()));
  for (int64_t i = 0; i < out.count(); ++i) {
    const int64_t source = i / inner / depth * inner + i % inner;
    int64_t hot = indices.data<int64_t>()[source];
    if (hot < 0) hot += depth;
    const bool on = hot == i / inner % depth;
    std::memcpy(to + static_cast<size_t>(i) * element, off + (on ? element : 0), element);
  }
  context.outputs[0] = out;
}

// --- NonZero

void InferNonZero(InferContext& context) {
  SymbolicShape shape(2);
  if (const SymbolicShape* input = context.shape(0)) {
    shape[0] = static_cast<int64_t>(input->empty() ? 1 : input->size());
  }
  SetOutput(context, 0, DType::kInt64, shape);
}

void EvaluateNonZero(EvalContext& context) {
  const Tensor& input = context.input(0);
  std::vector<int64_t> found;
  for (int64_t i = 0; i < input.count(); ++i) {
    if (input.AsDouble(i) != 0) found.push_back(i);
  }
  // A scalar counts as a vector of one element.
  const Shape shape = input.rank() > 0 ? input.shape() : Shape{1};
  const Shape strides = RowMajorStrides(shape);
  const auto count = static_cast<int64_t>(found.size());
  Tensor out(DType::kInt64, {static_cast<int64_t>(shape.size()), count});
  int64_t* to = out.data<int64_t>();
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    for (const int64_t index : found) *to++ = index / strides[axis] % shape[axis];
  }
  context.outputs[0] = out;
}

// --- Trilu

void InferTrilu(InferContext& context) {
  RequireMinRank(context, 0, 2);
  SameAsInput(context);
}

void EvaluateTrilu(EvalContext& context) {
  const Tensor& input = context.input(0);
  if (input.rank() < 2) Fail(ErrorCode::kShapeMismatch, "Trilu needs a matrix");
  const int64_t k = context.has(1) ? ScalarOf(context.input(1), "k of Trilu") : 0;
  const bool upper = context.attributes().Int("upper", 1) != 0;
  const size_t element = ElementBytes(input.dtype());
  Tensor out = input.Clone();
  auto* to = static_cast<uint8_t*>(out.raw());
  const int64_t columns = input.dim(input.rank() - 1);
  const int64_t rows = input.dim(input.rank() - 2);
  for (int64_t row = 0; row < (columns == 0 ? 0 : out.count() / columns); ++row) {
    // Column row + k is the first one that the upper triangle keeps, the last of the lower one.
    const double kept = static_cast<double>(row % rows) + static_cast<double>(k) + (upper ? 0 : 1);
    const auto edge =
        static_cast<size_t>(std::clamp(kept, 0.0, static_cast<double>(columns))) * element;
    const size_t bytes = static_cast<size_t>(columns) * element;
    uint8_t* line = to + static_cast<size_t>(row) * bytes;
    if (upper) {
      std::memset(line, 0, edge);
    } else {
      std::memset(line + edge, 0, bytes - edge);
    }
  }
  context.outputs[0] = out;
}

constexpr OpDef kRows[] = {
    {"EyeLike", "", 9, 1, 1, 1, InferEyeLike, EvaluateEyeLike, QuantRule::kShape},
    {"OneHot", "", 9, 3, 3, 1, InferOneHot, EvaluateOneHot, QuantRule::kShape},
    {"NonZero", "", 9, 1, 1, 1, InferNonZero, EvaluateNonZero, QuantRule::kShape},
    {"Trilu", "", 14, 1, 2, 1, InferTrilu, EvaluateTrilu, QuantRule::kFloat,
     FusionRule::kInjective},
    {"Trilu", kMicrosoftDomain, 1, 1, 2, 1, InferTrilu, EvaluateTrilu, QuantRule::kFloat,
     FusionRule::kInjective},
};

}  // namespace

std::span<const OpDef> OneHotOps() { return kRows; }

}  // namespace requant
