// Coordinates and weights of Resize and Upsample.
//
// Each axis is independent: an output index maps to a coordinate of the input (the formulas of
// onnx docs/Operators.md, attribute coordinate_transformation_mode), and the coordinate to one
// input element (nearest) or a few weighted ones. Coordinates are computed in float32 and in the
// order of ONNX Runtime (core/providers/cpu/tensor/upsamplebase.h), because "nearest" flips at
// ties; Resize-10 and Upsample use its "simple" rounding there.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/image/resize.h"
#include "ops/image/resize_axes.h"
#include "ops/shape/select.h"

namespace requant {
namespace {

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

}  // namespace requant
