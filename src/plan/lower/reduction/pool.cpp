// Lowers MaxPool, AveragePool, their global forms and the quantized averages.
#include <algorithm>

#include "plan/lower/convolution/qconv.h"
#include "plan/lower/elementwise/epilogue.h"
#include "plan/lower/parts.h"
#include "plan/lower/reduction/pool_step.h"
#include "plan/lower/rows.h"
#include "plan/lower/steps.h"

namespace requant {
namespace {

template <typename Params>
PoolStep<Params>& AddPoolStep(PlanBuilder& builder, const Node& node, const char* kernel,
                              void (*run)(const Params*), const ConvGeometry& geometry,
                              const Epilogue& epilogue) {
  const int input = builder.In(node.inputs[0], Layout::kChannelsLast);
  const int output = builder.Out(epilogue.output, Layout::kChannelsLast);
  auto& step = builder.Add<PoolStep<Params>>(node, kernel, {input}, {output});
  step.op = epilogue.op;
  step.run = run;
  step.params.geometry = geometry;
  step.params.row_end = ConvRows(geometry);
  const int64_t reads =
      int64_t{ConvRows(geometry)} * geometry.out_c * geometry.kernel_h * geometry.kernel_w;
  DivideRows(builder, step, run, ConvRows(geometry), 1, reads, kSlowMacsPerPart);
  return step;
}

/// Whether every window contains at least one value of the image.
bool WindowsTouchImage(const ConvGeometry& g) {
  return g.dilation_h == 1 && g.dilation_w == 1 && g.pad_top < g.kernel_h &&
         g.pad_left < g.kernel_w && (g.out_h - 1) * g.stride_h - g.pad_top < g.in_h &&
         (g.out_w - 1) * g.stride_w - g.pad_left < g.in_w;
}

PoolCount CountOf(const Node& node, const Shape& input, const std::vector<int64_t>& kernel) {
  const Window window = ReadWindow(node.attributes, kernel);
  const ImageDims dims = ImageOf(input);
  PoolCount count;
  count.include_pad = node.attributes.Int("count_include_pad", 0) != 0;
  const size_t last = window.rank() - 1;
  count.pad_right = static_cast<int32_t>(PlaceWindow(window, last, dims.width).pad_end);
  if (last > 0) {
    count.pad_bottom = static_cast<int32_t>(PlaceWindow(window, 0, dims.height).pad_end);
  }
  return count;
}

void AddAverageF32(PlanBuilder& builder, const Node& node, const ConvGeometry& geometry,
                   PoolCount count) {
  const AvgPoolF32Kernel& kernel = builder.Choose("avgpool_f32", AvgPoolF32Kernels());
  const Epilogue epilogue = TakeEpilogue(builder, node, false);
  auto& step = AddPoolStep(builder, node, kernel.name, kernel.run, geometry, epilogue);
  step.params.count = count;
  step.params.lo = static_cast<float>(epilogue.clamp.lo);
  step.params.hi = static_cast<float>(epilogue.clamp.hi);
}

bool AddAverageQ8(PlanBuilder& builder, const Node& node, const ConvGeometry& geometry,
                  PoolCount count) {
  const RequantizeMode mode = builder.options().requantize;
  if (mode != RequantizeMode::kUpward && mode != RequantizeMode::kFloat) return false;
  const auto x = ReadQuant(node, 1, 2);
  const auto y = ReadQuant(node, 3, 4);
  if (!x || !y || x->scales.size() != 1 || y->scales.size() != 1) return false;
  const int32_t taps = geometry.kernel_h * geometry.kernel_w;
  if (taps >= 1 << 16) return false;
  const AvgPoolQ8Kernel& kernel =
      builder.Choose("avgpool_q8", AvgPoolQ8Kernels(),
                     [mode](const AvgPoolQ8Kernel& row) { return row.mode == mode; });
  const Epilogue epilogue = TakeEpilogue(builder, node, false);
  auto& step = AddPoolStep(builder, node, kernel.name, kernel.run, geometry, epilogue);
  const DType out_type = epilogue.output->type.dtype;
  const CodeRange clamp = ClampOf(out_type, epilogue.clamp);
  builder.SetRange(epilogue.output, clamp);
  step.params.count = count;
  step.params.in_signed = node.inputs[0]->type.dtype == DType::kInt8;
  step.params.out_signed = out_type == DType::kInt8;
  step.params.input_zero_point = x->zero_points[0];
  step.params.output_zero_point = y->zero_points[0];
  step.params.lo = clamp.lo;
  step.params.hi = clamp.hi;
  step.params.input_scale = x->scales[0];
  step.params.output_scale = y->scales[0];
  if (mode == RequantizeMode::kUpward) {
    const bool global = geometry.kernel_h == geometry.in_h && geometry.kernel_w == geometry.in_w &&
                        geometry.pad_top == 0 && geometry.pad_left == 0;
    step.params.first_count = global ? taps : 1;
    step.multipliers =
        AvgPoolMultipliers(x->scales[0], y->scales[0], step.params.first_count, taps);
    step.params.multipliers = step.multipliers.data();
  }
  return true;
}

}  // namespace

bool LowerPool(PlanBuilder& builder, const Node& node) {
  const Value* x = node.inputs[0];
  const Shape input = x->type.StaticShape();
  const std::vector<int64_t> kernel_shape = node.attributes.Ints("kernel_shape");
  if (node.output(1) || kernel_shape.size() + 2 != input.size()) return false;
  const auto geometry = GeometryOf(node, input, node.outputs[0]->type.StaticShape(), kernel_shape);
  if (!geometry) return false;
  if (node.Is(Op::kAveragePool)) {
    if (x->type.dtype != DType::kFloat32) return false;
    AddAverageF32(builder, node, *geometry, CountOf(node, input, kernel_shape));
    return true;
  }
  if (IsByte(x->type.dtype)) {
    const MaxPoolQ8Kernel& kernel = builder.Choose("maxpool_q8", MaxPoolQ8Kernels());
    const Epilogue epilogue = TakeEpilogue(builder, node, false);
    auto& step = AddPoolStep(builder, node, kernel.name, kernel.run, *geometry, epilogue);
    const CodeRange clamp = ClampOf(x->type.dtype, epilogue.clamp);
    step.params.is_signed = x->type.dtype == DType::kInt8;
    // A window that lies in the padding gives the type's least value.
    CodeRange codes = builder.RangeOf(x);
    if (!WindowsTouchImage(*geometry)) codes.lo = CodesOf(x->type.dtype).lo;
    step.params.lo = std::clamp(codes.lo, clamp.lo, clamp.hi);
    step.params.hi = std::clamp(codes.hi, clamp.lo, clamp.hi);
    builder.SetRange(epilogue.output, {step.params.lo, step.params.hi});
    return true;
  }
  if (x->type.dtype != DType::kFloat32) return false;
  const MaxPoolF32Kernel& kernel = builder.Choose("maxpool_f32", MaxPoolF32Kernels());
  Epilogue epilogue;
  epilogue.output = node.outputs[0];
  epilogue.op = node.op_type;
  AddPoolStep(builder, node, kernel.name, kernel.run, *geometry, epilogue);
  return true;
}

bool LowerGlobalPool(PlanBuilder& builder, const Node& node) {
  const Value* x = node.inputs[0];
  const auto geometry = GlobalGeometry(x->type.StaticShape());
  if (!geometry || x->type.dtype != DType::kFloat32) return false;
  AddAverageF32(builder, node, *geometry, {});
  return true;
}

bool LowerQLinearPool(PlanBuilder& builder, const Node& node) {
  const Value* x = node.inputs[0];
  if (!IsByte(x->type.dtype) || node.attributes.Int("channels_last", 0) != 0) return false;
  const Shape input = x->type.StaticShape();
  if (node.op_type == "QLinearGlobalAveragePool") {
    const auto geometry = GlobalGeometry(input);
    return geometry && AddAverageQ8(builder, node, *geometry, {});
  }
  const std::vector<int64_t> kernel_shape = node.attributes.Ints("kernel_shape");
  if (kernel_shape.size() + 2 != input.size()) return false;
  const auto geometry = GeometryOf(node, input, node.outputs[0]->type.StaticShape(), kernel_shape);
  return geometry && AddAverageQ8(builder, node, *geometry, CountOf(node, input, kernel_shape));
}

RQ_STEP(MaxPoolF32, PoolStep<MaxPoolF32Params>)
RQ_STEP(MaxPoolQ8, PoolStep<MaxPoolQ8Params>)
RQ_STEP(AvgPoolF32, PoolStep<AvgPoolF32Params>)
RQ_STEP(AvgPoolQ8, PoolStep<AvgPoolQ8Params>)

}  // namespace requant
