// Lowers float Conv as a depthwise convolution or an implicit matrix product, with bias, residual
// and activation fused.
#include <string>
#include <utility>

#include "plan/lower/convolution/window_step.h"
#include "plan/lower/elementwise/epilogue.h"
#include "plan/lower/rows.h"

namespace requant {
void AddDepthwiseF32Step(PlanBuilder& builder, const Node& node, const ConvGeometry& geometry,
                         const float* weights, const float* bias, int input, int output,
                         const Epilogue& epilogue, const HalfWeights& half) {
  const DwConvF32Kernel& kernel = builder.Choose("dwconv_f32", DwConvF32Kernels());
  const int64_t taps = int64_t{geometry.kernel_h} * geometry.kernel_w;
  const DwConvF32Weights source{
      {geometry.in_c, geometry.kernel_h, geometry.kernel_w, taps, geometry.kernel_w, 1},
      weights,
      bias,
      half};
  const uint8_t* packed = builder.Pack(kernel, source);
  auto& step = builder.Add<DepthwiseF32Step>(node, kernel.name, {input}, {output});
  step.op = epilogue.op;
  step.params.lo = static_cast<float>(epilogue.clamp.lo);
  step.params.hi = static_cast<float>(epilogue.clamp.hi);
  step.params.portable = builder.options().portable ? 1 : 0;
  // Parts are whole lines, whose windows share inputs.
  step.Set(builder, kernel, geometry, packed, taps, geometry.out_w, kSlowMacsPerPart);
}

/// Weights of fewer bytes as floats stay in a cache, and are read faster as floats.
constexpr size_t kLeastHalfBytes = 16384;

FloatWeights WeightsOf(const ConvWeightsLayout& layout, const Tensor& constant, const float* bias) {
  const Tensor* half = constant.half();
  if (half && half->lean()) {
    return {{layout,
             nullptr,
             bias,
             {nullptr, static_cast<size_t>(half->count()), half->dtype() == DType::kBfloat16}},
            half};
  }
  if (constant.lean()) return {{layout, nullptr, bias}, &constant};
  const HalfWeights halves = HalvesOf(constant);
  return {{layout, halves.data ? nullptr : constant.data<float>(), bias, halves}};
}

namespace {

/// Points the weights at a tensor of floats or of 16 bits.
void PointAt(ConvF32Weights& weights, const Tensor* bytes) {
  if (weights.half.count > 0) {
    weights.half.data = static_cast<const uint16_t*>(bytes->raw());
  } else {
    weights.data = bytes->data<float>();
  }
}

const uint8_t* PackFloats(PlanBuilder& builder, const ConvF32Kernel& kernel,
                          const FloatWeights& weights) {
  const ConvF32Weights& plain = weights;
  if (weights.lean == nullptr) return builder.Pack(kernel, plain);
  const bool halves = weights.half.count > 0;
  // The bits of weights that were widened for a row of floats stay beside it.
  const auto unpack = halves == kernel.takes_halves() ? kernel.unpack_weights() : nullptr;
  return builder.PackLean(kernel, plain, {{&weights.lean, 1}, PointAt, unpack});
}

}  // namespace

HalfWeights HalvesOf(const Tensor& constant) {
  const Tensor* half = constant.half();
  if (half == nullptr) return {};
  return {static_cast<const uint16_t*>(half->raw()), static_cast<size_t>(half->count()),
          half->dtype() == DType::kBfloat16};
}

const ConvF32Kernel& ChooseConvF32(const PlanBuilder& builder, const ConvGeometry& geometry,
                                   const std::string& tuning, const HalfWeights& half) {
  const HalfPacking packing = builder.options().halves;
  const bool stays = packing == HalfPacking::kStay ||
                     (packing == HalfPacking::kBySize && half.count * 4 >= kLeastHalfBytes);
  // Lean weights are known to be finite.
  const bool fits = half.count > 0 && stays && (half.data == nullptr || conv::HalvesFit(half));
  return builder.Choose(
      "conv_f32", ConvF32Kernels(),
      [&](const ConvF32Kernel& row) {
        return row.supports(geometry) && (!row.takes_halves() || fits);
      },
      [&](const ConvF32Kernel& row) {
        return fits ? row.takes_halves() : row.is_preferred(geometry);
      },
      tuning);
}

const ConvF32Kernel& ChooseProductF32(const PlanBuilder& builder) {
  return builder.Choose("conv_f32", ConvF32Kernels(), [](const ConvF32Kernel& row) {
    return row.run != rq_conv_f32_lines && !row.takes_halves();
  });
}

void AddConvF32Step(PlanBuilder& builder, const Node& node, const ConvGeometry& geometry,
                    const FloatWeights& weights, Layout layout, int input) {
  const Epilogue epilogue = TakeEpilogue(builder, node, true);
  std::vector<int> inputs{input};
  if (epilogue.residual) inputs.push_back(builder.In(epilogue.residual, layout));
  const int output = builder.Out(epilogue.output, layout);
  AddConvF32Step(builder, node, geometry, weights, inputs, output, epilogue);
}

void AddConvF32Step(PlanBuilder& builder, const Node& node, const ConvGeometry& geometry,
                    const FloatWeights& weights, const std::vector<int>& inputs, int output,
                    const Epilogue& epilogue) {
  std::string tuning = TuningOf("conv_f32", geometry);
  const ConvF32Kernel& kernel = ChooseConvF32(builder, geometry, tuning, weights.half);
  const uint8_t* packed = PackFloats(builder, kernel, weights);
  auto& step = builder.Add<ConvF32Step>(node, kernel.name, inputs, {output});
  step.op = epilogue.op;
  step.tuning = std::move(tuning);
  step.params.halves = kernel.takes_halves() ? 1 : 0;
  step.params.residual_stride = geometry.out_c;
  step.params.lo = static_cast<float>(epilogue.clamp.lo);
  step.params.hi = static_cast<float>(epilogue.clamp.hi);
  step.params.portable = builder.options().portable ? 1 : 0;
  step.Set(builder, kernel, geometry, packed, TapsOf(weights.layout), TileOf(kernel.walk, geometry),
           kMacsPerPart);
}

bool LowerConv(PlanBuilder& builder, const Node& node) {
  const Tensor* weights = node.constant(1);
  const Tensor* bias = node.constant(2);
  if (weights == nullptr || weights->dtype() != DType::kFloat32 || (node.input(2) && !bias)) {
    return false;
  }
  const Shape& w = weights->shape();
  const auto geometry =
      GeometryOf(node, node.inputs[0]->type.StaticShape(), node.outputs[0]->type.StaticShape(),
                 Shape(w.begin() + 2, w.end()));
  if (!geometry) return false;
  const float* bias_data = bias ? bias->data<float>() : nullptr;
  if (IsDepthwise(*geometry)) {
    const Epilogue epilogue = TakeEpilogue(builder, node, false);
    const int input = builder.In(node.inputs[0], Layout::kChannelsLast);
    const int output = builder.Out(epilogue.output, Layout::kChannelsLast);
    const HalfWeights half = HalvesOf(*weights);
    AddDepthwiseF32Step(builder, node, *geometry, half.data ? nullptr : weights->data<float>(),
                        bias_data, input, output, epilogue, half);
    return true;
  }
  const FloatWeights source =
      WeightsOf(OihwLayout(geometry->out_c, geometry->in_c / geometry->groups, geometry->kernel_h,
                           geometry->kernel_w, geometry->groups),
                *weights, bias_data);
  AddConvF32Step(builder, node, *geometry, source, Layout::kChannelsLast,
                 builder.In(node.inputs[0], Layout::kChannelsLast));
  return true;
}

RQ_STEP(ConvF32, ConvF32Step)
RQ_STEP(DepthwiseF32, DepthwiseF32Step)

}  // namespace requant
