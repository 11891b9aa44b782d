// Lowers DynamicQuantizeLinear, and depthwise ConvIntegers that become floats: floats hold their
// sums exactly.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/str_cat.h"
#include "kernels/quantize/table.h"
#include "kernels/variant/kernel.h"
#include "plan/lower/kernel_step.h"
#include "plan/lower/parts.h"
#include "plan/lower/product/integer_product.h"
#include "plan/lower/product/value_range.h"
#include "plan/lower/rows.h"
#include "plan/lower/steps.h"

namespace requant {
namespace {

/// Computes x - zero as floats; x are bytes, and the zero point may be dynamic.
class WidenStep : public KernelStep<StepKind::kWiden, DequantizeKernels, DequantizeParams> {
 public:
  void Run(const RunContext& context) const override {
    DequantizeParams call = params;
    call.in = context.Read(inputs[0]);
    call.out = context.Write<float>(outputs[0]);
    if (inputs.size() > 1) {
      const uint8_t zero = *context.Read<uint8_t>(inputs[1]);
      call.zero = call.in_signed != 0 ? static_cast<int8_t>(zero) : zero;
    }
    RunParts(context, parts, run, call);
  }
};

/// Computes y, scale and zero point from the values of this run.
class DynamicQuantizeStep
    : public KernelStep<StepKind::kDynamicQuantize, QuantizeKernels, QuantizeParams> {
 public:
  void Run(const RunContext& context) const override {
    QuantizeParams call = params;
    call.in = context.Read<float>(inputs[0]);
    const ValueRange range = RangeOfValues(call.in, params.cols);
    const float lo = range.lo, hi = range.hi;
    // The reference defines this (ops/quantized/quantize.cpp).
    call.scale = hi == lo ? 1.0F : (hi - lo) / 255.0F;
    if (!std::isfinite(call.scale) || call.scale <= 0) {
      Fail(ErrorCode::kInvalidQuantization,
           StrCat("DynamicQuantizeLinear of values from ", lo, " to ", hi), {.node = name});
    }
    call.zero =
        static_cast<int32_t>(std::nearbyint(std::clamp(0.0F - lo / call.scale, 0.0F, 255.0F)));
    *context.Write<float>(outputs[1]) = call.scale;
    *context.Write<uint8_t>(outputs[2]) = static_cast<uint8_t>(call.zero);
    call.out = context.Write(outputs[0]);
    RunParts(context, parts, run, call);
  }
};

}  // namespace

// Lowers a depthwise ConvInteger and the Cast behind it: |x - z| and |w - z| are at most 255, so
// sums of up to 258 products are integers below 2^24, which floats hold.
bool LowerDepthwiseInteger(PlanBuilder& builder, const Node& node) {
  const auto found = IntegerConvGeometry(node);
  if (!found) return false;
  const ConvGeometry& geometry = *found;
  const int64_t taps = int64_t{geometry.kernel_h} * geometry.kernel_w;
  const Node* cast = builder.Follower(node);
  if (!IsDepthwise(geometry) || taps > 258 || cast == nullptr || !cast->Is(Op::kCast) ||
      cast->outputs[0]->type.dtype != DType::kFloat32 || !HasOneInputZero(node)) {
    return false;
  }
  const auto zeros = WeightZeros(node, geometry.out_c);
  if (!zeros) return false;
  std::vector<float> weights = node.constant(1)->ToFloats();
  for (size_t i = 0; i < weights.size() && !zeros->empty(); ++i) {
    weights[i] -= static_cast<float>((*zeros)[i / static_cast<size_t>(taps)]);
  }
  builder.Absorb(cast, node);
  const Value* x = node.inputs[0];
  const auto count = static_cast<size_t>(NumElements(x->type.StaticShape()));
  std::vector<int> inputs = {builder.In(x, Layout::kChannelsLast)};
  if (node.input(2)) inputs.push_back(builder.In(node.input(2)));
  const int floats = builder.Workspace(count * sizeof(float));
  const DequantizeKernel& kernel = builder.Choose("dequantize", DequantizeKernels());
  auto& step = builder.Add<WidenStep>(node, kernel.name, inputs, {floats});
  step.run = kernel.run;
  step.params.rows = 1;
  step.params.cols = step.params.in_row_stride = step.params.out_row_stride = count;
  step.params.scale = 1;
  step.params.in_signed = x->type.dtype == DType::kInt8 ? 1 : 0;
  DivideElements(builder, step, kernel.run, offsetof(DequantizeParams, cols), count, sizeof(float),
                 1);
  Epilogue epilogue;
  epilogue.op = node.op_type + "+" + cast->op_type;
  const int output = builder.Out(cast->outputs[0], Layout::kChannelsLast);
  AddDepthwiseF32Step(builder, node, geometry, weights.data(), nullptr, floats, output, epilogue);
  return true;
}

bool LowerDynamicQuantize(PlanBuilder& builder, const Node& node) {
  const Value* x = node.inputs[0];
  const auto count = static_cast<size_t>(NumElements(x->type.StaticShape()));
  // The reference computes nodes that leave out an output.
  for (size_t i = 0; i < 3; ++i) {
    if (node.output(i) == nullptr) return false;
  }
  if (count == 0) return false;
  const QuantizeKernel& kernel = builder.Choose("quantize", QuantizeKernels());
  const Layout layout = builder.LayoutOf(x);
  std::vector<int> outputs;
  const int input = builder.In(x, layout);
  for (size_t i = 0; i < 3; ++i) {
    outputs.push_back(builder.Out(node.outputs[i], i == 0 ? layout : Layout::kPlain));
  }
  auto& step = builder.Add<DynamicQuantizeStep>(node, kernel.name, {input}, outputs);
  step.run = kernel.run;
  step.params.rows = 1;
  step.params.cols = step.params.in_row_stride = step.params.out_row_stride = count;
  step.params.hi = 255;
  DivideElements(builder, step, kernel.run, offsetof(QuantizeParams, cols), count, sizeof(float),
                 1);
  return true;
}

RQ_STEP(Widen, WidenStep)
RQ_STEP(DynamicQuantize, DynamicQuantizeStep)

}  // namespace requant
