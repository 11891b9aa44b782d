// Resize-10 to Resize-19 and Upsample: nearest, linear and cubic with every coordinate mode
// (resize_walk.cpp).
#include <algorithm>
#include <vector>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "ops/elementwise/cast.h"
#include "ops/image/resize.h"
#include "ops/image/resize_axes.h"
#include "ops/infer_util.h"
#include "ops/shape/select.h"
#include "ops/table.h"

namespace requant {
namespace {

/// values [outer, in, inner] -> [outer, rows.size(), inner].
std::vector<double> ApplyTaps(const std::vector<double>& values,
                              const std::vector<std::vector<ResizeTap>>& rows, int64_t in,
                              int64_t inner, double extrapolation) {
  const auto outer = static_cast<int64_t>(values.size()) / (in * inner);
  std::vector<double> out(CheckedMul(static_cast<size_t>(outer * inner), rows.size()));
  double* to = out.data();
  for (int64_t o = 0; o < outer; ++o) {
    const double* plane = values.data() + o * in * inner;
    for (const std::vector<ResizeTap>& row : rows) {
      if (row.empty()) std::fill(to, to + inner, extrapolation);
      for (const ResizeTap& tap : row) {
        const double* from = plane + tap.index * inner;
        for (int64_t i = 0; i < inner; ++i) to[i] += tap.weight * from[i];
      }
      to += inner;
    }
  }
  return out;
}

void InferResize(InferContext& context) {
  InterpolationMode(context.node);
  CoordinateMode(context.node, context.opset);
  NearestMode(context.node, context.opset);
  const ResizeSlots slots = SlotsOf(context.node, context.opset);
  const SymbolicShape* input = context.shape(0);
  std::optional<SymbolicShape> shape;
  if (input != nullptr) {
    shape = SymbolicShape(input->size());
    const auto known = [&](size_t slot) -> const Tensor* {
      if (slot == kNoSlot || !context.has(slot)) return nullptr;
      const Tensor* constant = context.constant(slot);
      return constant != nullptr && constant->count() > 0 ? constant : nullptr;
    };
    const auto present = [&](size_t slot) {
      if (slot == kNoSlot || !context.has(slot)) return false;
      if (const Tensor* constant = context.constant(slot)) return constant->count() > 0;
      const SymbolicShape* list = context.shape(slot);
      return list == nullptr || list->size() != 1 || !((*list)[0] == Dim(0));
    };
    const ResizeInputs inputs{known(slots.roi), known(slots.scales), known(slots.sizes)};
    const bool by_attribute = context.attributes().Has("scales") && slots.sizes == kNoSlot;
    const bool roi_missing = inputs.roi == nullptr && present(slots.roi) &&
                             CoordinateMode(context.node, context.opset) == "tf_crop_and_resize";
    if (inputs.sizes ||
        ((inputs.scales || by_attribute) && !present(slots.sizes) && !roi_missing)) {
      NeedScalesOrSizes(context.node, inputs.scales || by_attribute, inputs.sizes != nullptr);
      const std::vector<ResizeAxis> axes = PlanResize(context.node, context.opset, *input, inputs);
      for (size_t i = 0; i < axes.size(); ++i) (*shape)[i] = axes[i].output;
    } else if (!present(slots.scales) && !present(slots.sizes) && !by_attribute) {
      NeedScalesOrSizes(context.node, false, false);
    }
  }
  SetOutput(context, 0, context.inputs[0].dtype, shape);
}

void EvaluateResize(EvalContext& context) {
  const Tensor& input = context.input(0);
  std::vector<const Tensor*> given{nullptr};
  for (size_t slot = 1; slot < context.inputs.size(); ++slot) given.push_back(context.inputs[slot]);
  const ResizeWalk walk = WalkResize(context.node, context.opset, input.shape(), given);
  if (NumElements(walk.shape) == 0) {
    context.outputs[0] = Tensor(input.dtype(), walk.shape);
    return;
  }
  if (walk.nearest) {
    std::vector<std::vector<int64_t>> indices;
    for (const ResizeAxisWalk& axis : walk.axes) indices.push_back(axis.picked);
    const Tensor fill = CastTensor(Tensor::Scalar(walk.extrapolation), input.dtype());
    context.outputs[0] = SelectByAxis(input, indices, fill.raw());
    return;
  }
  if (walk.antialias && !IsFloat(input.dtype())) {
    Fail(ErrorCode::kUnsupported,
         StrCat("Resize with antialias of ", DTypeName(input.dtype()), " when it shrinks"),
         {.hint = "export the model with antialias=False"});
  }
  std::vector<double> values = input.ToDoubles();
  for (size_t a = 0; a < walk.axes.size(); ++a) {
    if (walk.axes[a].same) continue;
    const int64_t inner = NumElements(
        Shape(input.shape().begin() + static_cast<std::ptrdiff_t>(a) + 1, input.shape().end()));
    values = ApplyTaps(values, walk.axes[a].taps, input.shape()[a], inner, walk.extrapolation);
  }
  // 8-bit results truncate and saturate, like ONNX Runtime's.
  context.outputs[0] = CastTensor(Tensor::FromVector(values, walk.shape), input.dtype());
}

constexpr OpDef kRows[] = {
    // The quantizer treats Resize as passive and checks the mode itself for nearest.
    Expensive({"Resize", "", 10, 1, 4, 1, InferResize, EvaluateResize, QuantRule::kPassive,
               FusionRule::kOutFusable}),
    {"Upsample", "", 7, 1, 2, 1, InferResize, EvaluateResize, QuantRule::kPassive,
     FusionRule::kOutFusable},
};

}  // namespace

std::span<const OpDef> ResizeOps() { return kRows; }

}  // namespace requant
