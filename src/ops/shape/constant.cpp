// Operators that make tensors without data: Constant, ConstantOfShape, Range (onnx
// docs/Operators.md).
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/elementwise/cast.h"
#include "ops/infer_util.h"
#include "ops/shape/select.h"
#include "ops/table.h"
#include "ops/text/constant_texts.h"

namespace requant {
namespace {

// --- Constant

Tensor ConstantValue(const AttributeMap& attributes) {
  if (const Tensor* value = attributes.TensorValue("value")) return *value;
  if (attributes.Has("value_float")) return Tensor::Scalar(attributes.Float("value_float", 0));
  if (attributes.Has("value_floats")) return Tensor::Vector(attributes.Floats("value_floats"));
  if (attributes.Has("value_int")) return Tensor::Scalar(attributes.Int("value_int", 0));
  if (attributes.Has("value_ints")) return Tensor::Vector(attributes.Ints("value_ints"));
  if (attributes.Has("value_string") || attributes.Has("value_strings")) {
    return kConstantTexts(attributes);
  }
  Fail(ErrorCode::kUnsupported, "Constant without a value that is known");
}

void InferConstant(InferContext& context) {
  context.outputs[0] = TypeOf(ConstantValue(context.attributes()));
}

void EvaluateConstant(EvalContext& context) {
  context.outputs[0] = ConstantValue(context.attributes());
}

// --- ConstantOfShape

Tensor FillValue(const AttributeMap& attributes) {
  const Tensor* value = attributes.TensorValue("value");
  if (value == nullptr) return Tensor::Scalar(0.0F);
  if (value->count() != 1) {
    Fail(ErrorCode::kInvalidModel,
         StrCat("the value of ConstantOfShape has ", value->count(), " elements instead of 1"));
  }
  return *value;
}

void InferConstantOfShape(InferContext& context) {
  const ListArgument target = ReadList(context, nullptr, 0);
  std::optional<SymbolicShape> shape;
  if (target.known()) {
    NumElements(target.values);
    shape = ToSymbolic(target.values);
  } else if (const auto rank = LengthOfInput(context, 0)) {
    shape = SymbolicShape(*rank);
  }
  SetOutput(context, 0, FillValue(context.attributes()).dtype(), shape);
}

void EvaluateConstantOfShape(EvalContext& context) {
  const Tensor value = FillValue(context.attributes());
  const size_t element = ElementBytes(value.dtype());
  Tensor out(value.dtype(), context.input(0).ToInts());
  auto* to = static_cast<uint8_t*>(out.raw());
  for (int64_t i = 0; i < out.count(); ++i) {
    std::memcpy(to + static_cast<size_t>(i) * element, value.raw(), element);
  }
  context.outputs[0] = out;
}

// --- Range

int64_t RangeCount(const Tensor& start, const Tensor& limit, const Tensor& delta) {
  if (start.count() != 1 || limit.count() != 1 || delta.count() != 1) {
    Fail(ErrorCode::kShapeMismatch, "start, limit and delta of Range must be scalars");
  }
  if (start.dtype() != limit.dtype() || start.dtype() != delta.dtype()) {
    Fail(ErrorCode::kTypeMismatch, "start, limit and delta of Range have different types");
  }
  const double steps = std::ceil((limit.AsDouble(0) - start.AsDouble(0)) / delta.AsDouble(0));
  if (!(std::fabs(steps) < 4294967296.0)) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("Range from ", start.AsDouble(0), " to ", limit.AsDouble(0), " by ",
                delta.AsDouble(0), " never ends"));
  }
  return steps > 0 ? static_cast<int64_t>(steps) : 0;
}

template <typename T>
Tensor FloatRange(const Tensor& start, const Tensor& delta, int64_t count) {
  Tensor out(start.dtype(), {count});
  const T first = start.data<T>()[0], step = delta.data<T>()[0];
  for (int64_t i = 0; i < count; ++i) out.data<T>()[i] = first + static_cast<T>(i) * step;
  return out;
}

Tensor MakeRange(const Tensor& start, const Tensor& limit, const Tensor& delta) {
  const int64_t count = RangeCount(start, limit, delta);
  if (start.dtype() == DType::kFloat32) return FloatRange<float>(start, delta, count);
  if (start.dtype() == DType::kFloat64) return FloatRange<double>(start, delta, count);
  if (!IsInteger(start.dtype())) {
    Fail(ErrorCode::kUnsupported, StrCat("Range of ", DTypeName(start.dtype())));
  }
  // Computes modulo 2^64; the type keeps the low bits.
  Tensor out(DType::kInt64, {count});
  const auto first = static_cast<uint64_t>(start.AsInt64(0));
  const auto step = static_cast<uint64_t>(delta.AsInt64(0));
  auto* to = out.data<int64_t>();
  for (int64_t i = 0; i < count; ++i) {
    to[i] = static_cast<int64_t>(first + static_cast<uint64_t>(i) * step);
  }
  return CastTensor(out, start.dtype());
}

void InferRange(InferContext& context) {
  SymbolicShape shape(1);
  if (context.constant(0) && context.constant(1) && context.constant(2)) {
    shape[0] = RangeCount(*context.constant(0), *context.constant(1), *context.constant(2));
  }
  SetOutput(context, 0, context.inputs[0].dtype, shape);
}

void EvaluateRange(EvalContext& context) {
  context.outputs[0] = MakeRange(context.input(0), context.input(1), context.input(2));
}

constexpr OpDef kRows[] = {
    {"Constant", "", 1, 0, 0, 1, InferConstant, EvaluateConstant, QuantRule::kShape},
    {"ConstantOfShape", "", 9, 1, 1, 1, InferConstantOfShape, EvaluateConstantOfShape,
     QuantRule::kShape},
    {"Range", "", 11, 3, 3, 1, InferRange, EvaluateRange, QuantRule::kShape},
};

}  // namespace

std::span<const OpDef> ConstantOps() { return kRows; }

}  // namespace requant
