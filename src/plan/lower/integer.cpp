// What dynamically quantized networks consist of: DynamicQuantizeLinear, ConvInteger and
// MatMulInteger with constant weights (the 8-bit kernels with their accumulators as output; the
// input's zero point is read when the step runs). Depthwise ConvIntegers that become floats are
// computed in floats, which hold their sums exactly.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/simd.h"
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

/// x - zero as floats, of bytes and a zero point that may be known only now.
class WidenStep : public Step {
 public:
  StepKind kind() const override { return StepKind::kWiden; }
  void Fields(PlanArchive& archive) override {
    archive.Fields(params);
    archive.Kernel(DequantizeKernels(), kernel, run);
  }
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
  DequantizeParams params{};
  void (*run)(const DequantizeParams*) = nullptr;
};

/// The zero points of the weights, one for each output channel; empty when all are 0. nullopt when
/// they are no constants or not as many.
std::optional<std::vector<int32_t>> WeightZeros(const Node& node, int32_t channels) {
  const Tensor* given = node.constant(3);
  if (node.input(3) && given == nullptr) return std::nullopt;
  std::vector<int32_t> zeros;
  if (given == nullptr) return zeros;
  for (const int64_t zero : given->ToInts()) zeros.push_back(static_cast<int32_t>(zero));
  if (zeros.size() == 1) zeros.resize(static_cast<size_t>(channels), zeros[0]);
  if (zeros.size() != static_cast<size_t>(channels)) return std::nullopt;
  return NonZero(zeros);
}

bool HasOneInputZero(const Node& node) {
  const Value* zero = node.input(2);
  return zero == nullptr || NumElements(zero->type.StaticShape()) == 1;
}

/// A depthwise ConvInteger and the Cast behind it: |x - z| and |w - z| are at most 255, so sums of
/// up to 258 products are integers below 2^24, which floats hold.
bool LowerDepthwiseInteger(PlanBuilder& builder, const Node& node, const ConvGeometry& geometry) {
  const int64_t taps = int64_t{geometry.kernel_h} * geometry.kernel_w;
  const Node* cast = builder.Follower(node);
  if (!IsDepthwise(geometry) || taps > 258 || cast == nullptr || !cast->Is("Cast") ||
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

/// Inputs: A, B, zero of A, zero of B.
bool AddIntegerProduct(PlanBuilder& builder, const Node& node, const ConvGeometry& geometry,
                       ConvWeightsLayout weights_layout, Layout layout) {
  const Tensor* weights = node.constant(1);
  const Value* input_zero = node.input(2);
  const auto zeros = WeightZeros(node, geometry.out_c);
  if (!zeros || !HasOneInputZero(node)) return false;
  // A zero point that is known only when the step runs may be any.
  const CodeRange codes =
      input_zero ? CodesOf(node.inputs[0]->type.dtype) : InputCodes(builder, node.inputs[0], 0);
  const ConvQ8Weights packing{weights_layout,
                              weights->raw(),
                              weights->dtype() == DType::kInt8,
                              zeros->empty() ? nullptr : zeros->data(),
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

/// The least and the largest of the values and 0; NaN is neither.
std::pair<float, float> RangeWithZero(const float* values, size_t count) {
  v128_t least[2] = {wasm_f32x4_splat(0), wasm_f32x4_splat(0)};
  v128_t largest[2] = {least[0], least[0]};
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (size_t part = 0; part < 2; ++part) {
      // pmin(a, b) is b < a ? b : a.
      const v128_t next = wasm_v128_load(values + i + part * 4);
      least[part] = wasm_f32x4_pmin(least[part], next);
      largest[part] = wasm_f32x4_pmax(largest[part], next);
    }
  }
  float lo[4], hi[4];
  wasm_v128_store(lo, wasm_f32x4_pmin(least[0], least[1]));
  wasm_v128_store(hi, wasm_f32x4_pmax(largest[0], largest[1]));
  std::pair<float, float> range(*std::min_element(lo, lo + 4), *std::max_element(hi, hi + 4));
  for (; i < count; ++i) {
    range.first = std::min(range.first, values[i]);
    range.second = std::max(range.second, values[i]);
  }
  return range;
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
    const auto [lo, hi] = RangeWithZero(call.in, params.cols);
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
  return LowerDepthwiseInteger(builder, node, *geometry) ||
         AddIntegerProduct(builder, node, *geometry,
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
  if (kind == StepKind::kWiden) return std::make_unique<WidenStep>();
  if (kind == StepKind::kDynamicQuantize) return std::make_unique<DynamicQuantizeStep>();
  return nullptr;
}

}  // namespace requant
