// What dynamically quantized networks consist of: DynamicQuantizeLinear, ConvInteger and
// MatMulInteger with constant weights (the 8-bit kernels with their accumulators as output; the
// input's zero point is read when the step runs).
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/str_cat.h"
#include "kernels/quantize/table.h"
#include "kernels/variant/kernel.h"
#include "plan/lower/parts.h"
#include "plan/lower/qconv.h"
#include "plan/lower/rows.h"
#include "plan/lower/steps.h"

namespace requant {
namespace {

class IntegerProductStep : public Step {
 public:
  StepKind kind() const override { return StepKind::kIntegerProduct; }
  void Fields(PlanArchive& archive) override {
    archive.Fields(params);
    archive.Blob(params.weights);
    archive.Kernel(ConvQ8Kernels(), kernel, run);
  }
  void Run(const RunContext& context) const override {
    ConvQ8Params call = params;
    call.input = context.Read(inputs[0]);
    call.output = context.Write(outputs[0]);
    call.workspace = context.Write(workspace);
    if (inputs.size() > 1) {
      const uint8_t zero = *context.Read<uint8_t>(inputs[1]);
      call.input_zero_point = call.input_signed != 0 ? static_cast<int8_t>(zero) : zero;
    }
    RunParts(context, parts, run, call);
  }
  ConvQ8Params params;
  void (*run)(const ConvQ8Params*) = nullptr;
};

/// Inputs: A, B, zero of A, zero of B.
bool AddIntegerProduct(PlanBuilder& builder, const Node& node, const ConvGeometry& geometry,
                       ConvWeightsLayout weights_layout, Layout layout) {
  const Tensor* weights = node.constant(1);
  const Tensor* weight_zeros = node.constant(3);
  if (node.input(3) && weight_zeros == nullptr) return false;
  const Value* input_zero = node.input(2);
  if (input_zero && NumElements(input_zero->type.StaticShape()) != 1) return false;
  std::vector<int32_t> zeros;
  if (weight_zeros) {
    for (const int64_t zero : weight_zeros->ToInts()) zeros.push_back(static_cast<int32_t>(zero));
    if (zeros.size() == 1) zeros.resize(static_cast<size_t>(geometry.out_c), zeros[0]);
    if (zeros.size() != static_cast<size_t>(geometry.out_c)) return false;
    zeros = NonZero(zeros);
  }
  // A zero point that is known only when the step runs may be any.
  const CodeRange codes =
      input_zero ? CodesOf(node.inputs[0]->type.dtype) : InputCodes(builder, node.inputs[0], 0);
  const ConvQ8Weights packing{weights_layout,
                              weights->raw(),
                              weights->dtype() == DType::kInt8,
                              zeros.empty() ? nullptr : zeros.data(),
                              nullptr,
                              codes.lo,
                              codes.hi};
  const ConvQ8Kernel& kernel = ChooseConvQ8(builder, packing, geometry, {});
  uint8_t* packed = builder.Packed(kernel.packed_size(packing));
  kernel.pack_weights(packing, packed);
  std::vector<int> inputs = {builder.In(node.inputs[0], layout)};
  if (input_zero) inputs.push_back(builder.In(input_zero));
  const int output = builder.Out(node.outputs[0], layout);
  auto& step = builder.Add<IntegerProductStep>(node, kernel.name, inputs, {output});
  step.run = kernel.run;
  step.params.geometry = geometry;
  step.params.row_end = ConvRows(geometry);
  step.params.input_signed = node.inputs[0]->type.dtype == DType::kInt8;
  step.params.weights = packed;
  step.params.output_type = ConvQ8Output::kInt32;
  step.macs = int64_t{ConvRows(geometry)} * geometry.out_c * weights_layout.in_c_per_group *
              weights_layout.kernel_h * weights_layout.kernel_w;
  DivideRows(builder, step, kernel.run, ConvRows(geometry), kConvTile, step.macs, kMacsPerPart,
             kernel.workspace_size(geometry));
  return true;
}

bool IsConstantBytes(const Node& node) {
  const Tensor* weights = node.constant(1);
  return weights && IsByte(weights->dtype()) && IsByte(node.inputs[0]->type.dtype) &&
         weights->count() > 0;
}

/// y, scale and zero point of the values met in this run.
class DynamicQuantizeStep : public Step {
 public:
  StepKind kind() const override { return StepKind::kDynamicQuantize; }
  void Fields(PlanArchive& archive) override {
    archive.Fields(params);
    archive.Kernel(QuantizeKernels(), kernel, run);
  }
  void Run(const RunContext& context) const override {
    QuantizeParams call = params;
    call.in = context.Read<float>(inputs[0]);
    float lo = 0;
    float hi = 0;  // the range always holds 0
    for (size_t i = 0; i < params.cols; ++i) {
      lo = std::min(lo, call.in[i]);
      hi = std::max(hi, call.in[i]);
    }
    // As the reference has it (ops/quantize.cpp).
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
  QuantizeParams params{};
  void (*run)(const QuantizeParams*) = nullptr;
};

}  // namespace

bool LowerConvInteger(PlanBuilder& builder, const Node& node) {
  if (!IsConstantBytes(node)) return false;
  const Shape& shape = node.constant(1)->shape();
  if (shape.size() < 3) return false;
  const auto geometry =
      GeometryOf(node, node.inputs[0]->type.StaticShape(), node.outputs[0]->type.StaticShape(),
                 Shape(shape.begin() + 2, shape.end()));
  if (!geometry) return false;
  return AddIntegerProduct(builder, node, *geometry,
                           OihwLayout(geometry->out_c, geometry->in_c / geometry->groups,
                                      geometry->kernel_h, geometry->kernel_w, geometry->groups),
                           Layout::kChannelsLast);
}

bool LowerMatMulInteger(PlanBuilder& builder, const Node& node) {
  const Shape a = node.inputs[0]->type.StaticShape();
  if (!IsConstantBytes(node) || node.constant(1)->rank() != 2 || a.empty()) return false;
  const int64_t k = node.constant(1)->dim(0);
  const int64_t n = node.constant(1)->dim(1);
  if (NumElements(a) == 0) return false;
  const ConvGeometry geometry = MatMulGeometry(NumElements(a) / k, k, n);
  if (!FitsInt32(geometry)) return false;
  ConvWeightsLayout layout;
  layout.out_c = static_cast<int32_t>(n);
  layout.in_c_per_group = static_cast<int32_t>(k);
  layout.stride_o = 1;
  layout.stride_i = n;
  return AddIntegerProduct(builder, node, geometry, layout, Layout::kPlain);
}

bool LowerDynamicQuantize(PlanBuilder& builder, const Node& node) {
  const Value* x = node.inputs[0];
  const auto count = static_cast<size_t>(NumElements(x->type.StaticShape()));
  // A file that leaves one of them out is left to the reference.
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

std::unique_ptr<Step> NewIntegerStep(StepKind kind) {
  if (kind == StepKind::kIntegerProduct) return std::make_unique<IntegerProductStep>();
  if (kind == StepKind::kDynamicQuantize) return std::make_unique<DynamicQuantizeStep>();
  return nullptr;
}

}  // namespace requant
