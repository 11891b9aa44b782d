// Resize-10 to Resize-19 and Upsample: nearest, linear and cubic with every coordinate mode.
//
// Each axis is independent: an output index maps to a coordinate of the input (the formulas of
// onnx docs/Operators.md, attribute coordinate_transformation_mode), and the coordinate to one
// input element (nearest) or a few weighted ones. Coordinates are computed in float32 and in the
// order of ONNX Runtime (core/providers/cpu/tensor/upsamplebase.h), because "nearest" flips at
// ties; Resize-10 and Upsample use its "simple" rounding there.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "ops/elementwise/cast.h"
#include "ops/image/resize.h"
#include "ops/infer_util.h"
#include "ops/shape/select.h"
#include "ops/table.h"

namespace requant {
namespace {

/// The tensor arguments, nullptr where absent (an empty tensor counts as absent in opset 11).
struct ResizeInputs {
  const Tensor* roi = nullptr;
  const Tensor* scales = nullptr;
  const Tensor* sizes = nullptr;
};

/// The plan for one axis.
struct ResizeAxis {
  Dim output;
  float scale = 1;
  float roi_start = 0;
  float roi_end = 1;
  bool named = true;  // false: copied as it is
  bool by_scale = false;
};

struct ResizeSlots {
  size_t roi, scales, sizes;  // kNoSlot where the operator has none
};
constexpr size_t kNoSlot = static_cast<size_t>(-1);

ResizeSlots SlotsOf(const Node& node, int opset) {
  if (node.op_type == "Resize" && opset >= 11) return {1, 2, 3};
  return {kNoSlot, 1, kNoSlot};
}

std::string CoordinateMode(const Node& node, int opset) {
  if (node.op_type == "Upsample" || opset == 10) return "asymmetric";
  std::string mode = node.attributes.String("coordinate_transformation_mode", "half_pixel");
  for (const char* known :
       {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
        "tf_half_pixel_for_nn", "tf_crop_and_resize"}) {
    if (mode == known) return mode;
  }
  Fail(ErrorCode::kUnsupported,
       StrCat("coordinate_transformation_mode '", mode, "' is not supported"));
}

std::string NearestMode(const Node& node, int opset) {
  if (node.op_type == "Upsample" || opset == 10) return "simple";
  std::string mode = node.attributes.String("nearest_mode", "round_prefer_floor");
  for (const char* known : {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}) {
    if (mode == known) return mode;
  }
  Fail(ErrorCode::kInvalidModel, StrCat("nearest_mode '", mode, "' does not exist"));
}

std::string InterpolationMode(const Node& node) {
  std::string mode = node.attributes.String("mode", "nearest");
  if (mode == "bilinear") mode = "linear";  // an old spelling of Upsample
  if (mode != "nearest" && mode != "linear" && mode != "cubic") {
    Fail(ErrorCode::kInvalidModel, StrCat("mode '", mode, "' of ", node.op_type, " does not exist"),
         {.hint = "use nearest, linear or cubic"});
  }
  return mode;
}

std::vector<float> ScalesOf(const ResizeInputs& inputs, const AttributeMap& attributes) {
  std::vector<float> scales =
      inputs.scales ? inputs.scales->ToFloats() : attributes.Floats("scales");
  for (const float scale : scales) {
    if (!(scale > 0) || !std::isfinite(scale)) {
      Fail(ErrorCode::kInvalidModel, StrCat("a resize scale of ", scale));
    }
  }
  return scales;
}

/// Rounds half up, as Resize-18 specifies round_int.
int64_t RoundInt(double value) {
  if (!(value < 9e15)) Fail(ErrorCode::kInvalidModel, "Resize to a dimension that is too large");
  return static_cast<int64_t>(std::floor(value + 0.5));
}

void RequireCount(size_t have, size_t want, const char* what) {
  if (have != want) {
    Fail(ErrorCode::kShapeMismatch,
         StrCat("Resize has ", have, " ", what, " where ", want, " are needed"));
  }
}

Dim ScaledDim(const Dim& dim, const ResizeAxis& axis, bool crop) {
  if (!dim.known()) return axis.scale == 1 && !crop ? dim : Dim();
  float size = static_cast<float>(dim.value) * axis.scale;
  if (crop) size *= axis.roi_end - axis.roi_start;
  if (!(size < 9e15F)) Fail(ErrorCode::kInvalidModel, "Resize to a dimension that is too large");
  return static_cast<int64_t>(std::max(0.0F, std::floor(size)));
}

/// The axes for an input whose dimensions may be unknown. Exactly one of scales and sizes is given.
std::vector<ResizeAxis> PlanResize(const Node& node, int opset, const SymbolicShape& input,
                                   const ResizeInputs& inputs) {
  const AttributeMap& attributes = node.attributes;
  const auto rank = static_cast<int64_t>(input.size());
  const std::vector<int64_t> named = attributes.Ints("axes", Sequence(rank));
  NormalizeAxes(named, rank);  // throws for duplicates
  const size_t count = named.size();
  const bool crop = CoordinateMode(node, opset) == "tf_crop_and_resize";
  std::vector<float> roi(count, 0.0F);
  roi.resize(2 * count, 1.0F);
  if (crop && inputs.roi) roi = inputs.roi->ToFloats();
  RequireCount(roi.size(), 2 * count, "roi bounds");

  std::vector<ResizeAxis> axes(input.size());
  for (size_t i = 0; i < input.size(); ++i) axes[i] = {input[i], 1, 0, 1, false};
  const auto axis_of = [&](size_t i) -> size_t {
    return static_cast<size_t>(NormalizeAxis(named[i], rank));
  };
  for (size_t i = 0; i < count; ++i) {
    axes[axis_of(i)] = {Dim(), 1, roi[i], roi[i + count], true};
  }
  if (inputs.sizes == nullptr) {
    const std::vector<float> scales = ScalesOf(inputs, attributes);
    RequireCount(scales.size(), count, "scales");
    for (size_t i = 0; i < count; ++i) {
      ResizeAxis& axis = axes[axis_of(i)];
      axis.scale = scales[i];
      axis.by_scale = true;
      axis.output = ScaledDim(input[axis_of(i)], axis, crop);
    }
    return axes;
  }
  const std::vector<int64_t> sizes = inputs.sizes->ToInts();
  RequireCount(sizes.size(), count, "sizes");
  NumElements(sizes);  // throws for a negative one
  const std::string policy = attributes.String("keep_aspect_ratio_policy", "stretch");
  if (policy != "stretch" && policy != "not_larger" && policy != "not_smaller") {
    Fail(ErrorCode::kInvalidModel,
         StrCat("keep_aspect_ratio_policy '", policy, "' does not exist"));
  }
  bool all_known = true;
  float shared = policy == "not_larger" ? INFINITY : 0.0F;
  for (size_t i = 0; i < count; ++i) {
    const Dim& dim = input[axis_of(i)];
    all_known = all_known && dim.known();
    if (!dim.known() || dim.value == 0) continue;
    const float scale = static_cast<float>(sizes[i]) / static_cast<float>(dim.value);
    shared = policy == "not_larger" ? std::min(shared, scale) : std::max(shared, scale);
  }
  for (size_t i = 0; i < count; ++i) {
    ResizeAxis& axis = axes[axis_of(i)];
    const Dim& dim = input[axis_of(i)];
    if (policy == "stretch") {
      axis.output = sizes[i];
      if (dim.known() && dim.value > 0) {
        axis.scale = static_cast<float>(sizes[i]) / static_cast<float>(dim.value);
      }
    } else if (all_known && std::isfinite(shared)) {
      axis.scale = shared;
      axis.output = RoundInt(static_cast<double>(shared) * static_cast<double>(dim.value));
    }
  }
  return axes;
}

// --- coordinates and weights

/// The input coordinate of output index `i`; `outside` says that tf_crop_and_resize leaves the
/// tensor there.
float Coordinate(int64_t i, int64_t in, int64_t out, const ResizeAxis& axis,
                 const std::string& mode, bool* outside) {
  const auto x = static_cast<float>(i);
  const auto in_last = static_cast<float>(in - 1);
  const auto out_last = static_cast<float>(out - 1);
  if (mode == "asymmetric") return axis.scale == 1 ? x : x / axis.scale;
  if (mode == "align_corners") {
    if (out == 1) return 0.0F;
    // By scales, ONNX takes the output's length before it is rounded down.
    const float length = axis.scale * static_cast<float>(in);
    const bool fractional = axis.by_scale && std::fabs(length - static_cast<float>(out)) > 1e-3F;
    return x * in_last / (fractional ? length - 1 : out_last);
  }
  if (mode == "pytorch_half_pixel") return out > 1 ? (x + 0.5F) / axis.scale - 0.5F : 0.0F;
  if (mode == "tf_half_pixel_for_nn") return (x + 0.5F) / axis.scale;  // until opset 12
  if (mode == "half_pixel_symmetric") {
    const float width = axis.scale * static_cast<float>(in);
    const float adjustment = static_cast<float>(out) / width;
    const float offset = static_cast<float>(in) / 2 * (1 - adjustment);
    return offset + (x + 0.5F) / axis.scale - 0.5F;
  }
  if (mode == "tf_crop_and_resize") {
    const float extent = axis.roi_end - axis.roi_start;
    const float at = out > 1 ? axis.roi_start * in_last + x * extent * in_last / out_last
                             : 0.5F * (axis.roi_start + axis.roi_end) * in_last;
    *outside = at < 0 || at > in_last;
    return at;
  }
  return (x + 0.5F) / axis.scale - 0.5F;  // half_pixel
}

int64_t Nearest(float at, const std::string& mode, bool down) {
  if (mode == "simple") {  // Resize-10: ONNX Runtime truncates, but rounds up when it shrinks
    return static_cast<int64_t>(down ? std::ceil(at) : at);
  }
  if (mode == "floor") return static_cast<int64_t>(std::floor(at));
  if (mode == "ceil") return static_cast<int64_t>(std::ceil(at));
  const float below = std::floor(at);
  const float rest = at - below;
  const bool up = mode == "round_prefer_ceil" ? rest >= 0.5F : rest > 0.5F;
  return static_cast<int64_t>(below) + (up ? 1 : 0);
}

/// The taps of one output index: up to four (more where a filter is stretched), none when it lies
/// outside.
using Taps = std::vector<ResizeTap>;

/// Keys' cubic kernel with coefficient a, at distance |d| < 2.
double CubicWeight(double d, double a) {
  d = std::fabs(d);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  if (d < 2) return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  return 0;
}

/// Makes the taps at a coordinate. Below 1, `shrink` widens the filter to 1 / shrink of its width,
/// so that it covers all inputs of one output (antialias).
Taps MakeTaps(float at, int64_t in, bool cubic, double a, bool exclude_outside, double shrink) {
  Taps out;
  const bool stretched = shrink < 1;
  const double reach = (cubic ? 2 : 1) / shrink;
  const double below = std::floor(static_cast<double>(at));
  const double rest = at - below;
  double total = 0;
  int64_t first = cubic ? -1 : 0;
  int64_t last = cubic ? 2 : 1;
  if (stretched) {
    first = static_cast<int64_t>(std::floor(rest - reach)) + 1;
    last = static_cast<int64_t>(std::ceil(rest + reach)) - 1;
  }
  for (int64_t offset = first; offset <= last; ++offset) {
    const double distance = (rest - static_cast<double>(offset)) * shrink;
    double weight = cubic ? CubicWeight(distance, a) : 1 - std::fabs(distance);
    const auto index = static_cast<int64_t>(below) + offset;
    if (exclude_outside && (index < 0 || index >= in)) weight = 0;
    total += weight;
    const int64_t inside = std::clamp<int64_t>(index, 0, in - 1);
    if (stretched && !out.empty() && out.back().index == inside) {
      out.back().weight += weight;
    } else {
      out.push_back({inside, weight});
    }
  }
  if ((exclude_outside || stretched) && total != 0) {
    for (ResizeTap& tap : out) tap.weight /= total;
  }
  return out;
}

/// values [outer, in, inner] -> [outer, rows.size(), inner].
std::vector<double> ApplyTaps(const std::vector<double>& values, const std::vector<Taps>& rows,
                              int64_t in, int64_t inner, double extrapolation) {
  const auto outer = static_cast<int64_t>(values.size()) / (in * inner);
  std::vector<double> out(CheckedMul(static_cast<size_t>(outer * inner), rows.size()));
  double* to = out.data();
  for (int64_t o = 0; o < outer; ++o) {
    const double* plane = values.data() + o * in * inner;
    for (const Taps& row : rows) {
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

// --- the operator

void NeedScalesOrSizes(const Node& node, bool has_scales, bool has_sizes) {
  if (has_scales == has_sizes) {
    Fail(ErrorCode::kInvalidModel, StrCat(node.op_type, has_scales ? " has both scales and sizes"
                                                                   : " has no scales or sizes"));
  }
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

ResizeWalk WalkResize(const Node& node, int opset, const Shape& input,
                      const std::vector<const Tensor*>& given) {
  const ResizeSlots slots = SlotsOf(node, opset);
  const auto find = [&given](size_t slot) -> const Tensor* {
    if (slot >= given.size() || given[slot] == nullptr) return nullptr;
    return given[slot]->count() > 0 ? given[slot] : nullptr;
  };
  const bool by_attribute = node.attributes.Has("scales") && slots.sizes == kNoSlot;
  const ResizeInputs inputs{find(slots.roi), find(slots.scales), find(slots.sizes)};
  NeedScalesOrSizes(node, inputs.scales || by_attribute, inputs.sizes != nullptr);
  const std::vector<ResizeAxis> axes = PlanResize(node, opset, ToSymbolic(input), inputs);

  const std::string mode = InterpolationMode(node);
  const std::string coordinates = CoordinateMode(node, opset);
  const std::string nearest = NearestMode(node, opset);
  const double cubic_coefficient = node.attributes.Float("cubic_coeff_a", -0.75F);
  const bool exclude_outside = node.attributes.Int("exclude_outside", 0) != 0;
  const bool antialias = node.attributes.Int("antialias", 0) != 0 && mode != "nearest";
  ResizeWalk walk;
  walk.nearest = mode == "nearest";
  walk.extrapolation = node.attributes.Float("extrapolation_value", 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    walk.shape.push_back(axes[i].output.value);
    if (input[i] == 0 && walk.shape[i] != 0) {
      Fail(ErrorCode::kShapeMismatch, StrCat("Resize of an empty dimension to ", walk.shape[i]));
    }
    walk.antialias = walk.antialias || (antialias && axes[i].scale < 1);
  }
  if (NumElements(walk.shape) == 0) return walk;
  for (size_t a = 0; a < axes.size(); ++a) {
    const ResizeAxis& axis = axes[a];
    const int64_t in = input[a];
    const int64_t out = walk.shape[a];
    ResizeAxisWalk& along = walk.axes.emplace_back();
    along.picked = Sequence(out);
    // An axis that keeps its size and coordinates is copied.
    along.same =
        !axis.named || (axis.scale == 1 && out == in && coordinates != "tf_crop_and_resize");
    if (!axis.named) continue;
    // Only a crop larger than an image allows can have outputs at such a scale.
    if (antialias && 1 / axis.scale > 4 * static_cast<float>(in) + 16) {
      Fail(ErrorCode::kUnsupported, StrCat("Resize with antialias and a scale of ", axis.scale));
    }
    const float shrink = antialias ? std::min(axis.scale, 1.0F) : 1.0F;
    if (!walk.nearest) along.taps.resize(along.picked.size());
    for (size_t i = 0; i < along.picked.size(); ++i) {
      bool outside = false;
      float at = Coordinate(static_cast<int64_t>(i), in, out, axis, coordinates, &outside);
      // Far outside, everything is the border; the clamp keeps conversions to integers defined.
      const float far = 4 / shrink;
      at = std::max(-far, std::min(at, static_cast<float>(in) + far));
      along.picked[i] =
          outside ? -1 : std::clamp<int64_t>(Nearest(at, nearest, axis.scale < 1), 0, in - 1);
      if (!walk.nearest && !outside) {
        along.taps[i] =
            MakeTaps(at, in, mode == "cubic", cubic_coefficient, exclude_outside, shrink);
      }
    }
  }
  return walk;
}

std::span<const OpDef> ResizeOps() { return kRows; }

}  // namespace requant
