#include "ops/image/resize_axes.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/infer_util.h"
#include "ops/shape/select.h"

namespace requant {
namespace {

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

}  // namespace

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

void NeedScalesOrSizes(const Node& node, bool has_scales, bool has_sizes) {
  if (has_scales == has_sizes) {
    Fail(ErrorCode::kInvalidModel, StrCat(node.op_type, has_scales ? " has both scales and sizes"
                                                                   : " has no scales or sizes"));
  }
}

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

}  // namespace requant
