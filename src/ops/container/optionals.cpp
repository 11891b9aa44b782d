// Optional, OptionalGetElement and OptionalHasElement (onnx docs/Operators.md).
#include "base/error.h"
#include "base/late_text.h"
#include "ops/container/container.h"
#include "ops/table.h"

namespace requant {
namespace {

/// The type of the content where there is none: an attribute, which the reader has made a number.
DType DeclaredContent(const AttributeMap& attributes) {
  const int64_t type = attributes.Int("type", 0);
  if (type > 0 && type < 256 && !IsOptional(static_cast<DType>(type))) {
    return static_cast<DType>(type);
  }
  Fail(ErrorCode::kInvalidModel, RQ_LATE_TEXT("Optional without an input has no type"));
}

void InferOptional(InferContext& context) {
  const DType content =
      context.has(0) ? context.inputs[0].dtype : DeclaredContent(context.attributes());
  SetOutput(context, 0, OptionalOf(content), ContainerShape());
}

void EvaluateOptional(EvalContext& context) {
  if (!context.has(0)) {
    context.outputs[0] = ContainerOf(OptionalOf(DeclaredContent(context.attributes())), {});
    return;
  }
  const Tensor& content = context.input(0);
  context.outputs[0] = ContainerOf(OptionalOf(content.dtype()), {content});
}

/// Since opset 18 the input may be the content itself.
void InferGet(InferContext& context) {
  const ValueType& type = context.inputs[0];
  if (!IsOptional(type.dtype)) return SetOutput(context, 0, type.dtype, type.shape);
  const DType content = ContentOf(type.dtype);
  SetOutput(context, 0, content, IsSequence(content) ? ContainerShape() : std::nullopt);
}

/// A state of a loop may be optional at first and a sequence later; a feed has its declared type.
bool HoldsOptional(const EvalContext& context) {
  const DType dtype = context.input(0).dtype();
  return IsOptional(dtype) ||
         (!IsSequence(dtype) && IsOptional(context.node.inputs[0]->type.dtype));
}

void EvaluateGet(EvalContext& context) {
  const Tensor& optional = context.input(0);
  if (!HoldsOptional(context)) {
    context.outputs[0] = optional;
    return;
  }
  const std::vector<Tensor> items = ItemsOf(optional);
  if (items.size() != 1) {
    Fail(ErrorCode::kInvalidArgument, RQ_LATE_TEXT("OptionalGetElement of an empty optional value"),
         {.node = context.node.name, .hint = RQ_LATE_TEXT("ask OptionalHasElement first")});
  }
  context.outputs[0] = items[0].Clone();
}

void InferHas(InferContext& context) { SetOutput(context, 0, DType::kBool, SymbolicShape{}); }

void EvaluateHas(EvalContext& context) {
  const bool has =
      context.has(0) && (!HoldsOptional(context) || !ItemsOf(context.input(0)).empty());
  context.outputs[0] = Tensor::Scalar(has);
}

constexpr OpDef kRows[] = {
    {"Optional", "", 15, 0, 1, 1, InferOptional, EvaluateOptional, QuantRule::kFloat},
    {"OptionalGetElement", "", 15, 1, 1, 1, InferGet, EvaluateGet, QuantRule::kFloat},
    {"OptionalHasElement", "", 15, 0, 1, 1, InferHas, EvaluateHas, QuantRule::kFloat},
};

}  // namespace

std::span<const OpDef> OptionalOps() { return kRows; }

}  // namespace requant
