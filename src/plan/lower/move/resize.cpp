// Lowers Resize and Upsample of images: nearest for every type, linear for float.
#include <limits>

#include "base/checked_math.h"
#include "kernels/resize/table.h"
#include "ops/image/resize.h"
#include "plan/lower/parts.h"
#include "plan/lower/rows.h"
#include "plan/lower/steps.h"

namespace requant {
namespace {

class NearestStep : public StepOf<StepKind::kNearest> {
 public:
  void Fields(PlanArchive& archive) override { archive.Fields(params, ys, xs); }
  void Run(const RunContext& context) const override {
    ResizeNearestParams call = params;
    call.in = context.Read(inputs[0]);
    call.out = context.Write(outputs[0]);
    call.ys = ys.data();
    call.xs = xs.data();
    ResizeNearest(&call);
  }
  ResizeNearestParams params;
  std::vector<int32_t> ys, xs;
};

class LinearStep : public StepOf<StepKind::kLinear> {
 public:
  void Fields(PlanArchive& archive) override {
    archive.Fields(params, ys, xs);
    archive.Kernel(ResizeLinearF32Kernels(), kernel, run);
  }
  void Run(const RunContext& context) const override {
    ResizeLinearF32Params call = params;
    call.in = context.Read<float>(inputs[0]);
    call.out = context.Write<float>(outputs[0]);
    call.ys = ys.data();
    call.xs = xs.data();
    RunParts(context, parts, run, call);
  }
  ResizeLinearF32Params params;
  std::vector<LinearTap> ys, xs;
  void (*run)(const ResizeLinearF32Params*) = nullptr;
};

/// The input index of each output; empty when an output lies outside the image.
std::vector<int32_t> Indices(const ResizeAxisWalk& axis) {
  std::vector<int32_t> out;
  for (const int64_t index : axis.picked) {
    if (index < 0) return {};
    out.push_back(static_cast<int32_t>(index));
  }
  return out;
}

/// The taps of each output; empty when one lies outside the image or has other than two taps.
std::vector<LinearTap> LinearTaps(const ResizeAxisWalk& axis) {
  std::vector<LinearTap> out;
  if (axis.same) {
    for (const int64_t index : axis.picked) {
      const auto i = static_cast<int32_t>(index);
      out.push_back({i, i, 1.0F, 0.0F});
    }
    return out;
  }
  for (const std::vector<ResizeTap>& taps : axis.taps) {
    if (taps.size() != 2) return {};
    out.push_back({static_cast<int32_t>(taps[0].index), static_cast<int32_t>(taps[1].index),
                   static_cast<float>(taps[0].weight), static_cast<float>(taps[1].weight)});
  }
  return out;
}

/// Sets the sizes that both kinds of parameters have.
template <typename Params>
void SetSizes(Params& params, const ImageDims& from, const ImageDims& to) {
  params.in_h = static_cast<size_t>(from.height);
  params.in_w = static_cast<size_t>(from.width);
  params.out_h = static_cast<size_t>(to.height);
  params.out_w = static_cast<size_t>(to.width);
}

}  // namespace

bool LowerResize(PlanBuilder& builder, const Node& node) {
  const Value* x = node.inputs[0];
  const Shape in = x->type.StaticShape();
  const int bits = DTypeBits(x->type.dtype);
  if ((in.size() != 3 && in.size() != 4) || NumElements(in) == 0 || bits < 8) return false;
  std::vector<const Tensor*> given{nullptr};
  for (size_t slot = 1; slot < node.inputs.size(); ++slot) {
    if (node.input(slot) && node.constant(slot) == nullptr) return false;
    given.push_back(node.constant(slot));
  }
  const ResizeWalk walk = WalkResize(node, builder.graph().opset(), in, given);
  if (NumElements(walk.shape) == 0 || !walk.axes[0].same || !walk.axes[1].same) return false;
  for (size_t axis = 2; axis < in.size(); ++axis) {
    if (std::max(in[axis], walk.shape[axis]) > std::numeric_limits<int32_t>::max()) return false;
  }
  const ImageDims from = ImageOf(in);
  const ImageDims to = ImageOf(walk.shape);
  const ResizeAxisWalk line{true, {0}, {}};  // a row of pixels is an image of one line
  const ResizeAxisWalk& vertical = in.size() == 4 ? walk.axes[2] : line;
  const ResizeAxisWalk& horizontal = walk.axes.back();
  const auto layout = Layout::kChannelsLast;
  if (walk.nearest) {
    std::vector<int32_t> ys = Indices(vertical);
    std::vector<int32_t> xs = Indices(horizontal);
    if (ys.empty() || xs.empty()) return false;
    const int input = builder.In(x, layout);
    const int output = builder.Out(node.outputs[0], layout);
    auto& step = builder.Add<NearestStep>(node, "resize_nearest", {input}, {output});
    SetSizes(step.params, from, to);
    step.params.images = static_cast<size_t>(from.batch);
    step.params.pixel_bytes = static_cast<size_t>(from.channels) * static_cast<size_t>(bits / 8);
    step.ys = std::move(ys);
    step.xs = std::move(xs);
    builder.KeepRange(x, node.outputs[0]);
    return true;
  }
  if (x->type.dtype != DType::kFloat32) return false;
  std::vector<LinearTap> ys = LinearTaps(vertical);
  std::vector<LinearTap> xs = LinearTaps(horizontal);
  if (ys.empty() || xs.empty()) return false;
  const ResizeLinearF32Kernel& kernel =
      builder.Choose("resize_linear_f32", ResizeLinearF32Kernels());
  const int64_t lines = CheckedMul(from.batch, to.height);
  if (lines > std::numeric_limits<int32_t>::max()) return false;
  const int input = builder.In(x, layout);
  const int output = builder.Out(node.outputs[0], layout);
  auto& step = builder.Add<LinearStep>(node, kernel.name, {input}, {output});
  step.run = kernel.run;
  SetSizes(step.params, from, to);
  step.params.channels = static_cast<size_t>(from.channels);
  step.params.row_end = static_cast<int32_t>(lines);
  DivideRows(builder, step, kernel.run, lines, 1, NumElements(walk.shape) * 2, kElementsPerPart);
  step.ys = std::move(ys);
  step.xs = std::move(xs);
  return true;
}

RQ_STEP(Nearest, NearestStep)
RQ_STEP(Linear, LinearStep)

}  // namespace requant
