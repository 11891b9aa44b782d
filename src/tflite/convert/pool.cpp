// AVERAGE_POOL_2D, MAX_POOL_2D and L2_POOL_2D.
#include "tflite/convert/window.h"
#include "tflite/operators.h"

namespace requant::tflite {
namespace {

AttributeMap PoolAttributes(const Context& context) {
  using Options = field::Pool2DOptions;
  const TableView& options = context.options();
  Window window;
  window.padding = static_cast<Padding>(options.Get<int8_t>(Options::kPadding, 0));
  window.stride[0] = options.Get<int32_t>(Options::kStrideH, 0);
  window.stride[1] = options.Get<int32_t>(Options::kStrideW, 0);
  window.kernel[0] = options.Get<int32_t>(Options::kFilterH, 0);
  window.kernel[1] = options.Get<int32_t>(Options::kFilterW, 0);
  AttributeMap attributes = WindowAttributes(context, 0, window);
  attributes.Set("kernel_shape", std::vector<int64_t>{window.kernel[0], window.kernel[1]});
  return attributes;
}

int8_t PoolActivation(const Context& context) {
  return context.options().Get<int8_t>(field::Pool2DOptions::kActivation, 0);
}

}  // namespace

void ConvertPool(Context& context, const char* onnx) {
  // Averages leave padding out, which is ONNX's default.
  Value* result = context.Add(onnx, {context.Reals(0, Order::kPlanar)}, PoolAttributes(context));
  context.DefineActivated(result, PoolActivation(context), Order::kPlanar);
}

/// The root of the mean of the squares.
void ConvertL2Pool(Context& context, const char*) {
  Value* x = context.Reals(0, Order::kPlanar);
  Value* mean = context.Add("AveragePool", {context.Add("Mul", {x, x})}, PoolAttributes(context));
  context.DefineActivated(context.Add("Sqrt", {mean}), PoolActivation(context), Order::kPlanar);
}

}  // namespace requant::tflite
