// DynamicQuantizeLinear (onnx docs/Operators.md).
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/str_cat.h"
#include "numeric/affine.h"
#include "ops/infer_util.h"
#include "ops/table.h"

namespace requant {
namespace {

void InferDynamicQuantizeLinear(InferContext& context) {
  RequireDType(context, 0, {DType::kFloat32});
  SetOutput(context, 0, DType::kUint8, context.inputs[0].shape);
  SetOutput(context, 1, DType::kFloat32, SymbolicShape{});
  SetOutput(context, 2, DType::kUint8, SymbolicShape{});
}

void EvaluateDynamicQuantizeLinear(EvalContext& context) {
  const Tensor& x = context.input(0);
  float lo = 0;
  float hi = 0;  // the range always holds 0
  for (const float value : x.values<float>()) {
    lo = std::min(lo, value);
    hi = std::max(hi, value);
  }
  // In float32 and this order: onnx docs/Operators.md; a tensor of zeros has scale 1 as in ONNX
  // Runtime (core/util/qmath.h, GetQuantizationParameter).
  const float scale = hi == lo ? 1.0F : (hi - lo) / 255.0F;
  if (!std::isfinite(scale) || scale <= 0) {
    Fail(ErrorCode::kInvalidQuantization,
         StrCat("DynamicQuantizeLinear of values from ", lo, " to ", hi));
  }
  const float zero = std::nearbyint(std::clamp(0.0F - lo / scale, 0.0F, 255.0F));
  Tensor out(DType::kUint8, x.shape());
  for (int64_t i = 0; i < x.count(); ++i) {
    out.data<uint8_t>()[i] = static_cast<uint8_t>(
        QuantizeLinear(x.data<float>()[i], scale, static_cast<int32_t>(zero), {0, 255}));
  }
  context.outputs[0] = out;
  if (context.outputs.size() > 1) context.outputs[1] = Tensor::Scalar(scale);
  if (context.outputs.size() > 2) context.outputs[2] = Tensor::Scalar(static_cast<uint8_t>(zero));
}

constexpr OpDef kRows[] = {
    OnIntegers({"DynamicQuantizeLinear", "", 11, 1, 1, 3, InferDynamicQuantizeLinear,
                EvaluateDynamicQuantizeLinear, QuantRule::kFloat}),
};

}  // namespace

std::span<const OpDef> DynamicQuantizeOps() { return kRows; }

}  // namespace requant
