// Float Conv: depthwise, or an implicit matrix product; bias, residual and activation fused.
#include <string>
#include <utility>

#include "kernels/conv/table.h"
#include "kernels/dwconv/table.h"
#include "plan/lower/epilogue.h"
#include "plan/lower/parts.h"
#include "plan/lower/rows.h"
#include "plan/lower/steps.h"
#include "plan/lower/window.h"

namespace requant {
namespace {

class ConvStep : public Step {
 public:
  StepKind kind() const override { return StepKind::kConvF32; }
  void Fields(PlanArchive& archive) override {
    archive.Fields(params);
    archive.Blob(params.weights);
    archive.Kernel(ConvF32Kernels(), kernel, run);
  }
  void Run(const RunContext& context) const override {
    ConvF32Params call = params;
    call.input = context.Read<float>(inputs[0]);
    call.residual = inputs.size() > 1 ? context.Read<float>(inputs[1]) : nullptr;
    call.output = context.Write<float>(outputs[0]);
    call.workspace = context.Write(workspace);
    RunParts(context, parts, run, call);
  }
  bool WriteWithStride(size_t elements) override {
    return SetOutputStride(params.geometry, elements);
  }
  ConvF32Params params;
  void (*run)(const ConvF32Params*) = nullptr;
};

class DepthwiseStep : public Step {
 public:
  StepKind kind() const override { return StepKind::kDepthwiseF32; }
  void Fields(PlanArchive& archive) override {
    archive.Fields(params);
    archive.Blob(params.weights);
    archive.Kernel(DwConvF32Kernels(), kernel, run);
  }
  void Run(const RunContext& context) const override {
    DwConvF32Params call = params;
    call.input = context.Read<float>(inputs[0]);
    call.output = context.Write<float>(outputs[0]);
    call.workspace = context.Write(workspace);
    RunParts(context, parts, run, call);
  }
  bool WriteWithStride(size_t elements) override {
    return SetOutputStride(params.geometry, elements);
  }
  DwConvF32Params params;
  void (*run)(const DwConvF32Params*) = nullptr;
};

void LowerDepthwise(PlanBuilder& builder, const Node& node, const ConvGeometry& geometry,
                    const Tensor& weights, const float* bias) {
  const DwConvF32Kernel& kernel = builder.Choose("dwconv_f32", DwConvF32Kernels());
  const int64_t taps = int64_t{geometry.kernel_h} * geometry.kernel_w;
  const DwConvF32Weights source{
      {geometry.in_c, geometry.kernel_h, geometry.kernel_w, taps, geometry.kernel_w, 1},
      weights.data<float>(),
      bias};
  uint8_t* packed = builder.Packed(kernel.packed_size(source));
  kernel.pack_weights(source, packed);
  const Epilogue epilogue = TakeEpilogue(builder, node, false);
  const int input = builder.In(node.inputs[0], Layout::kChannelsLast);
  const int output = builder.Out(epilogue.output, Layout::kChannelsLast);
  auto& step = builder.Add<DepthwiseStep>(node, kernel.name, {input}, {output});
  step.op = epilogue.op;
  step.run = kernel.run;
  step.params.geometry = geometry;
  step.params.row_end = ConvRows(geometry);
  step.params.weights = packed;
  step.params.lo = static_cast<float>(epilogue.lo);
  step.params.hi = static_cast<float>(epilogue.hi);
  step.macs = int64_t{ConvRows(geometry)} * geometry.out_c * taps;
  // Whole lines, whose windows share what they read.
  DivideRows(builder, step, kernel.run, ConvRows(geometry), geometry.out_w, step.macs,
             kSlowMacsPerPart, kernel.workspace_size(geometry));
}

}  // namespace

void AddConvF32Step(PlanBuilder& builder, const Node& node, const ConvGeometry& geometry,
                    const ConvF32Weights& weights, Layout layout, int input) {
  const Epilogue epilogue = TakeEpilogue(builder, node, true);
  std::vector<int> inputs{input};
  if (epilogue.residual) inputs.push_back(builder.In(epilogue.residual, layout));
  const int output = builder.Out(epilogue.output, layout);
  AddConvF32Step(builder, node, geometry, weights, inputs, output, epilogue);
}

void AddConvF32Step(PlanBuilder& builder, const Node& node, const ConvGeometry& geometry,
                    const ConvF32Weights& weights, const std::vector<int>& inputs, int output,
                    const Epilogue& epilogue) {
  std::string tuning = TuningOf("conv_f32", geometry);
  const ConvF32Kernel& kernel = builder.Choose(
      "conv_f32", ConvF32Kernels(),
      [&geometry](const ConvF32Kernel& row) { return row.supports(geometry); }, tuning);
  uint8_t* packed = builder.Packed(kernel.packed_size(weights));
  kernel.pack_weights(weights, packed);
  auto& step = builder.Add<ConvStep>(node, kernel.name, inputs, {output});
  step.op = epilogue.op;
  step.tuning = std::move(tuning);
  step.run = kernel.run;
  step.params.geometry = geometry;
  step.params.row_end = ConvRows(geometry);
  step.params.weights = packed;
  step.params.residual_stride = geometry.out_c;
  step.params.lo = static_cast<float>(epilogue.lo);
  step.params.hi = static_cast<float>(epilogue.hi);
  step.macs = int64_t{ConvRows(geometry)} * geometry.out_c * weights.layout.in_c_per_group *
              weights.layout.kernel_h * weights.layout.kernel_w;
  DivideRows(builder, step, kernel.run, ConvRows(geometry), kConvTile, step.macs, kMacsPerPart,
             kernel.workspace_size(geometry));
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
    LowerDepthwise(builder, node, *geometry, *weights, bias_data);
    return true;
  }
  const ConvF32Weights source{OihwLayout(geometry->out_c, geometry->in_c / geometry->groups,
                                         geometry->kernel_h, geometry->kernel_w, geometry->groups),
                              weights->data<float>(), bias_data};
  AddConvF32Step(builder, node, *geometry, source, Layout::kChannelsLast,
                 builder.In(node.inputs[0], Layout::kChannelsLast));
  return true;
}

std::unique_ptr<Step> NewConvStep(StepKind kind) {
  if (kind == StepKind::kConvF32) return std::make_unique<ConvStep>();
  if (kind == StepKind::kDepthwiseF32) return std::make_unique<DepthwiseStep>();
  return nullptr;
}

}  // namespace requant
