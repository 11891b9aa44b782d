// Lowers QuantizeLinear and DequantizeLinear per tensor. A network's input goes from planar floats
// to channels-last bytes in one pass.
#include "kernels/quantize/table.h"

#include "plan/lower/convolution/qconv.h"
#include "plan/lower/kernel_step.h"
#include "plan/lower/parts.h"
#include "plan/lower/rows.h"
#include "plan/lower/steps.h"

namespace requant {
namespace {

using QuantizeStep = UnaryKernelStep<StepKind::kQuantize, QuantizeKernels, QuantizeParams>;

class QuantizePlanesStep : public StepOf<StepKind::kQuantizePlanes> {
 public:
  void Fields(PlanArchive& archive) override {
    archive.Fields(params, batch);
    archive.Kernel(QuantizePlanesKernels(), kernel, run);
  }
  void Run(const RunContext& context) const override {
    QuantizePlanesParams call = params;
    for (size_t n = 0; n < batch; ++n) {
      call.in = context.Read<float>(inputs[0]) + n * params.channels * params.pixels;
      call.out = context.Write<uint8_t>(outputs[0]) + n * params.channels * params.pixels;
      RunParts(context, parts, run, call);
    }
  }
  QuantizePlanesParams params{};
  size_t batch = 1;
  void (*run)(const QuantizePlanesParams*) = nullptr;
};

using DequantizeStep = UnaryKernelStep<StepKind::kDequantize, DequantizeKernels, DequantizeParams>;

}  // namespace

bool LowerQuantize(PlanBuilder& builder, const Node& node) {
  const Value* x = node.inputs[0];
  const Value* y = node.outputs[0];
  const auto quant = ReadQuant(node, 1, 2);
  if (!quant || quant->scales.size() != 1 || x->type.dtype != DType::kFloat32 ||
      !IsByte(y->type.dtype)) {
    return false;
  }
  const Shape shape = x->type.StaticShape();
  const ImageDims dims = ImageOf(shape);
  const auto count = static_cast<size_t>(NumElements(shape));
  const Layout layout = builder.LayoutOf(x);
  // The clamps behind the operator limit the codes to fewer bits.
  const Epilogue epilogue = TakeEpilogue(builder, node, false);
  const CodeRange clamp = ClampOf(y->type.dtype, epilogue.clamp);
  builder.SetRange(epilogue.output, clamp);
  if (shape.size() == 4 && layout == Layout::kPlain && !LayoutsCoincide(shape) &&
      dims.channels <= 4) {
    const QuantizePlanesKernel& kernel = builder.Choose("quantize_planes", QuantizePlanesKernels());
    const int input = builder.In(x);
    const int output = builder.Out(epilogue.output, Layout::kChannelsLast);
    auto& step = builder.Add<QuantizePlanesStep>(node, kernel.name, {input}, {output});
    step.op = epilogue.op;
    step.run = kernel.run;
    step.batch = static_cast<size_t>(dims.batch);
    step.params.channels = static_cast<size_t>(dims.channels);
    step.params.pixels = static_cast<size_t>(dims.height * dims.width);
    step.params.in_plane_stride = step.params.pixels;
    step.params.out_pixel_stride = step.params.channels;
    step.params.scale = quant->scales[0];
    step.params.zero = quant->zero_points[0];
    step.params.lo = clamp.lo;
    step.params.hi = clamp.hi;
    DivideElements(builder, step, kernel.run, offsetof(QuantizePlanesParams, pixels),
                   step.params.pixels, sizeof(float), step.params.channels);
    return true;
  }
  const QuantizeKernel& kernel = builder.Choose("quantize", QuantizeKernels());
  const int input = builder.In(x, layout);
  const int output = builder.Out(epilogue.output, layout);
  auto& step = builder.Add<QuantizeStep>(node, kernel.name, {input}, {output});
  step.op = epilogue.op;
  step.run = kernel.run;
  step.params.rows = 1;
  step.params.cols = step.params.in_row_stride = step.params.out_row_stride = count;
  step.params.scale = quant->scales[0];
  step.params.zero = quant->zero_points[0];
  step.params.lo = clamp.lo;
  step.params.hi = clamp.hi;
  DivideElements(builder, step, kernel.run, offsetof(QuantizeParams, cols), count, sizeof(float),
                 1);
  return true;
}

bool LowerDequantize(PlanBuilder& builder, const Node& node) {
  const Value* x = node.inputs[0];
  const auto quant = ReadQuant(node, 1, 2, ScaleRule::kPositiveOrZero);
  if (!quant || quant->scales.size() != 1 || !IsByte(x->type.dtype) ||
      node.outputs[0]->type.dtype != DType::kFloat32) {
    return false;
  }
  const DequantizeKernel& kernel = builder.Choose("dequantize", DequantizeKernels());
  const Layout layout = builder.LayoutOf(x);
  const int input = builder.In(x, layout);
  const int output = builder.Out(node.outputs[0], layout);
  auto& step = builder.Add<DequantizeStep>(node, kernel.name, {input}, {output});
  step.run = kernel.run;
  step.params.rows = 1;
  step.params.cols = static_cast<size_t>(NumElements(x->type.StaticShape()));
  step.params.in_row_stride = step.params.out_row_stride = step.params.cols;
  step.params.scale = quant->scales[0];
  step.params.zero = quant->zero_points[0];
  step.params.in_signed = x->type.dtype == DType::kInt8;
  DivideElements(builder, step, kernel.run, offsetof(DequantizeParams, cols), step.params.cols, 1,
                 sizeof(float));
  return true;
}

RQ_STEP(Quantize, QuantizeStep)
RQ_STEP(QuantizePlanes, QuantizePlanesStep)
RQ_STEP(Dequantize, DequantizeStep)

}  // namespace requant
