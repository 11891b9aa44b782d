#include <limits>

#include "base/error.h"
#include "base/late_text.h"
#include "base/str_cat.h"
#include "tflite/converter.h"

namespace requant::tflite {

ErrorContext Context::Where(std::string hint) const {
  const bool named = !op_.outputs.empty() && op_.outputs[0] >= 0;
  const std::string name = named ? converter_.tensor(op_.outputs[0]).name : std::string();
  return {.node = name, .value = name, .hint = std::move(hint)};
}

void Context::Refuse(const std::string& what, std::string hint) const {
  ErrorContext where = Where(std::move(hint));
  std::string message = StrCat(name_, RQ_LATE_TEXT(" of '"), where.value, RQ_LATE_TEXT("' "), what);
  Fail(ErrorCode::kUnsupported, std::move(message), std::move(where));
}

void Context::Invalid(const std::string& what) const {
  ErrorContext where = Where("");
  std::string message = StrCat(name_, RQ_LATE_TEXT(" of '"), where.value, RQ_LATE_TEXT("' "), what);
  InvalidTflite(std::move(message), std::move(where));
}

int32_t Context::in(size_t slot) const {
  if (!has(slot)) Invalid(StrCat(RQ_LATE_TEXT("lacks input "), slot));
  return op_.inputs[slot];
}

int32_t Context::out(size_t slot) const {
  if (slot >= op_.outputs.size() || op_.outputs[slot] < 0)
    Invalid(StrCat(RQ_LATE_TEXT("lacks output "), slot));
  const FileTensor& tensor = converter_.tensor(op_.outputs[slot]);
  if (tensor.dtype == DType::kUndefined) {
    Refuse(StrCat(RQ_LATE_TEXT("makes type "), static_cast<int>(tensor.type),
                  RQ_LATE_TEXT(" of TFLite's schema")),
           RQ_LATE_TEXT("convert the model without that type"));
  }
  return op_.outputs[slot];
}

std::vector<int64_t> Context::ints(size_t slot) const {
  if (const Tensor* known = constant(slot)) {
    if (!IsInteger(known->dtype()))
      Invalid(StrCat(RQ_LATE_TEXT("has an input "), slot, RQ_LATE_TEXT(" of no integers")));
    return known->ToInts();
  }
  const FileTensor& tensor = input(slot);
  const ValueType type{tensor.dtype, tensor.shape};
  if (type.IsStatic() && NumElements(type.StaticShape()) == 0) return {};
  Refuse(StrCat(RQ_LATE_TEXT("computes its input "), slot, RQ_LATE_TEXT(", '"), tensor.name, "'"),
         RQ_LATE_TEXT("convert the model with fixed shapes, so that this input is constant"));
}

int64_t Context::Axis(int64_t axis, size_t rank) const {
  const auto count = static_cast<int64_t>(rank);
  const int64_t from_start = axis < 0 ? axis + count : axis;
  if (from_start < 0 || from_start >= count) {
    Invalid(StrCat(RQ_LATE_TEXT("has the axis "), axis, RQ_LATE_TEXT(" of "), count));
  }
  return from_start;
}

Value* Context::Int64(size_t slot) {
  if (const Tensor* known = constant(slot)) {
    return converter_.AddConstant(Tensor::FromVector(known->ToInts(), known->shape()));
  }
  return Cast(Codes(slot), DType::kInt64);
}

Value* Context::Cast(Value* value, DType dtype) {
  return Add("Cast", {value}, With("to", static_cast<int64_t>(dtype)));
}

Value* Context::Ints(const std::vector<int64_t>& values) {
  return converter_.AddConstant(Tensor::Vector(values));
}

Value* Context::Scalar(float value) { return converter_.AddConstant(Tensor::Scalar(value)); }

Value* Context::Activate(Value* reals, Activation activation) {
  switch (activation) {
    case Activation::kNone:
      return reals;
    case Activation::kRelu:
      return Add("Relu", {reals});
    case Activation::kReluN1To1:
      return Add("Clip", {reals, Scalar(-1), Scalar(1)});
    case Activation::kRelu6:
      return Add("Clip", {reals, Scalar(0), Scalar(6)});
    case Activation::kTanh:
      return Add("Tanh", {reals});
    default:
      Refuse(RQ_LATE_TEXT("has the activation SIGN_BIT"),
             RQ_LATE_TEXT("use RELU, RELU6, RELU_N1_TO_1 or TANH"));
  }
}

void Context::DefineActivated(Value* reals, int8_t activation, Order order) {
  const auto kind = static_cast<Activation>(activation);
  const DType dtype = output().dtype;
  // The activations of integers without scales have no operator in ONNX.
  if (kind != Activation::kNone && IsInteger(dtype) && output().quantization.scales.empty()) {
    Refuse(RQ_LATE_TEXT("has an activation of integers"),
           RQ_LATE_TEXT("convert the model with floats"));
  }
  Define(Activate(reals, kind), order);
}

void Context::DefineInts(Value* int64, size_t slot) {
  const DType dtype = output(slot).dtype;
  converter_.DefineCodes(out(slot), dtype == DType::kInt64 ? int64 : Cast(int64, dtype),
                         Order::kPlain);
}

}  // namespace requant::tflite
