// CAST, and operators between codes and numbers.
#include <algorithm>
#include <cmath>

#include "base/late_text.h"
#include "base/str_cat.h"
#include "tflite/operators.h"

namespace requant::tflite {

void ConvertCast(Context& context, const char*) {
  const Order order = context.order(0);
  const DType dtype = context.output().dtype;
  if (dtype == DType::kUndefined)
    context.Refuse(RQ_LATE_TEXT("makes a type that the engine lacks"), RQ_LATE_TEXT("use floats"));
  context.graph().DefineCodes(context.out(), context.Cast(context.Codes(0, order), dtype), order);
}

void ConvertDequantize(Context& context, const char*) {
  const DType from = context.input(0).dtype;
  const Tensor* known = context.constant(0);
  if (IsHalf(from)) {
    // Weights of 16 bits keep them until a kernel packs them.
    if (known) return context.graph().DefineConstant(context.out(), Tensor::Widened(*known));
    const Order order = context.order(0);
    return context.Define(context.Cast(context.Codes(0, order), DType::kFloat32), order);
  }
  if (!context.graph().quantized(context.in(0)))
    context.Invalid(RQ_LATE_TEXT("has an input without scales"));
  const Order order = context.order(0);
  context.Define(context.Reals(0, order), order);
}

void ConvertQuantize(Context& context, const char*) {
  if (!context.graph().quantized(context.out()))
    context.Invalid(RQ_LATE_TEXT("has an output without scales"));
  const Order order = context.order(0);
  context.Define(context.Reals(0, order), order);
}

/// The reader of the file has made the tensor dense.
void ConvertDensify(Context& context, const char*) {
  const Tensor* known = context.constant(0);
  if (known == nullptr) {
    context.Refuse(RQ_LATE_TEXT("has an input that is computed"),
                   RQ_LATE_TEXT("convert the model without sparsity"));
  }
  context.graph().DefineConstant(context.out(), *known);
}

/// Rounds to a grid that has 0 on it (tensorflow/lite/kernels/internal/quantization_util.cc,
/// NudgeQuantizationRange).
void ConvertFakeQuant(Context& context, const char*) {
  using Options = field::FakeQuantOptions;
  const TableView& options = context.options();
  const float least = options.Get<float>(Options::kMin, 0);
  const float most = options.Get<float>(Options::kMax, 0);
  const int32_t bits = options.Get<int32_t>(Options::kNumBits, 0);
  const int32_t low = options.Flag(Options::kNarrowRange) ? 1 : 0;
  if (bits != 8)
    context.Refuse(StrCat(RQ_LATE_TEXT("has "), bits, RQ_LATE_TEXT(" bits")),
                   RQ_LATE_TEXT("use 8 bits"));
  if (!(least <= 0 && most >= 0 && most > least)) {
    context.Invalid(RQ_LATE_TEXT("has a range without 0"));
  }
  const float scale = (most - least) / static_cast<float>(255 - low);
  const float zero = std::round(static_cast<float>(low) - least / scale);
  const float nudged = std::clamp(zero, static_cast<float>(low), 255.0F);
  const Order order = context.order(0);
  Converter& graph = context.graph();
  Value* x = context.Reals(0, order);
  if (low == 1) x = context.Add("Max", {x, context.Scalar((1 - nudged) * scale)});
  const std::vector<Value*> grid = {
      context.Scalar(scale), graph.AddConstant(Tensor::Scalar(static_cast<uint8_t>(nudged)))};
  Value* codes = context.Add("QuantizeLinear", {x, grid[0], grid[1]});
  context.Define(context.Add("DequantizeLinear", {codes, grid[0], grid[1]}), order);
}

}  // namespace requant::tflite
