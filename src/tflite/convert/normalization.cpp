// Operators over the last dimension of a tensor, which are the channels of an image.
#include "base/late_text.h"
#include "tflite/convert/window.h"
#include "tflite/operators.h"

namespace requant::tflite {
namespace {

int64_t LastAxis(const Context& context, Order order) {
  if (context.rank(0) == 0) context.Invalid(RQ_LATE_TEXT("has an input without dimensions"));
  return order == Order::kPlanar ? 1 : static_cast<int64_t>(context.rank(0)) - 1;
}

}  // namespace

void ConvertSoftmax(Context& context, const char* onnx) {
  const Order order = context.order(0);
  Value* x = context.Reals(0, order);
  // Only SOFTMAX has a beta; without options it is 0, which no converter means.
  const float beta = context.options() && std::string_view(onnx) == "Softmax"
                         ? context.options().Get<float>(field::SoftmaxOptions::kBeta, 0)
                         : 1.0F;
  if (beta != 1) x = context.Add("Mul", {x, context.Scalar(beta)});
  context.Define(context.Add(onnx, {x}, With("axis", LastAxis(context, order))), order);
}

/// x / max(|x|, 1e-6) (tensorflow/lite/kernels/internal/reference/l2normalization.h).
void ConvertL2Normalization(Context& context, const char*) {
  const Order order = context.order(0);
  Value* x = context.Reals(0, order);
  Value* axes = context.Ints({LastAxis(context, order)});
  Value* norm = context.Add("ReduceL2", {x, axes});
  Value* divisor = context.Add("Max", {norm, context.Scalar(1e-6F)});
  context.DefineActivated(context.Add("Div", {x, divisor}),
                          context.options().Get<int8_t>(field::ActivationOptions::kActivation, 0),
                          order);
}

/// ONNX divides alpha by the number of channels that it sums up.
void ConvertLocalResponse(Context& context, const char*) {
  using Options = field::LocalResponseNormalizationOptions;
  ImageShape(context, 0);
  const TableView& options = context.options();
  const int64_t radius = options.Get<int32_t>(Options::kRadius, 0);
  if (radius < 0) context.Invalid(RQ_LATE_TEXT("has a negative radius"));
  const int64_t size = 2 * radius + 1;
  AttributeMap attributes;
  attributes.Set("size", size);
  attributes.Set("bias", options.Get<float>(Options::kBias, 0));
  attributes.Set("alpha", options.Get<float>(Options::kAlpha, 0) * static_cast<float>(size));
  attributes.Set("beta", options.Get<float>(Options::kBeta, 0));
  Value* result = context.Add("LRN", {context.Reals(0, Order::kPlanar)}, std::move(attributes));
  context.Define(result, Order::kPlanar);
}

}  // namespace requant::tflite
