// Resize and Upsample: RESIZE_NEAREST_NEIGHBOR and RESIZE_BILINEAR, in the mode of coordinates that
// picks the elements that ONNX picks (tensorflow/lite/kernels/internal/reference/resize_utils.h).
#include <algorithm>
#include <cmath>

#include "base/late_text.h"
#include "base/str_cat.h"
#include "ops/image/resize.h"
#include "tflite/write/ops/window.h"

namespace requant::tflite {

void WriteResize(Writer& w);

namespace {

enum class Coordinates : uint8_t { kAsymmetric, kHalfPixel, kAlignCorners };

struct Line {
  int64_t input, output;
};

float Scale(Line line, Coordinates mode) {
  return mode == Coordinates::kAlignCorners && line.output > 1
             ? static_cast<float>(line.input - 1) / static_cast<float>(line.output - 1)
             : static_cast<float>(line.input) / static_cast<float>(line.output);
}

int64_t NearestOf(Line line, Coordinates mode, int64_t place) {
  const float offset = mode == Coordinates::kHalfPixel ? 0.5F : 0.0F;
  const float position = (static_cast<float>(place) + offset) * Scale(line, mode);
  const float index =
      mode == Coordinates::kAlignCorners ? std::round(position) : std::floor(position);
  return std::clamp<int64_t>(static_cast<int64_t>(index), 0, line.input - 1);
}

bool SameNearest(const ResizeAxisWalk& walk, Line line, Coordinates mode) {
  for (int64_t i = 0; i < line.output; ++i) {
    const int64_t wanted = walk.same ? i : walk.picked[static_cast<size_t>(i)];
    if (NearestOf(line, mode, i) != wanted) return false;
  }
  return true;
}

bool SameLinear(const ResizeAxisWalk& walk, Line line, Coordinates mode) {
  for (int64_t i = 0; i < line.output; ++i) {
    const float scale = Scale(line, mode);
    const double position = mode == Coordinates::kHalfPixel
                                ? (static_cast<float>(i) + 0.5F) * scale - 0.5F
                                : static_cast<float>(i) * scale;
    const double wanted = std::clamp<double>(position, 0, static_cast<double>(line.input - 1));
    double centre = walk.same ? static_cast<double>(i) : 0;
    if (!walk.same) {
      if (walk.taps[static_cast<size_t>(i)].empty()) return false;
      for (const ResizeTap& tap : walk.taps[static_cast<size_t>(i)]) {
        centre += static_cast<double>(tap.index) * tap.weight;
      }
    }
    if (std::abs(centre - wanted) > 1e-4) return false;
  }
  return true;
}

}  // namespace

void WriteResize(Writer& w) {
  const Node& node = w.node();
  const Value* x = node.inputs[0];
  const Shape dims = w.ShapeOf(x);
  const Shape result = w.ShapeOf(node.output());
  std::vector<const Tensor*> given(node.inputs.size(), nullptr);
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == nullptr) continue;
    if (!node.inputs[i]->is_constant()) w.ConstantOf(node.inputs[i], "sizes");
    given[i] = &node.inputs[i]->constant;
  }
  const ResizeWalk walk = WalkResize(node, w.graph().opset(), dims, given);
  const bool image = dims.size() == 3 || dims.size() == 4;
  if (!image || dims[0] != result[0] || dims[1] != result[1]) {
    w.Refuse(RQ_LATE_TEXT("it resizes other dimensions than height and width"),
             RQ_LATE_TEXT("resize images [N, C, H, W]"), x);
  }
  const bool cubic = !walk.nearest && node.attributes.String("mode", "nearest") == "cubic";
  if (cubic || walk.antialias) {
    w.Refuse(cubic ? "it is cubic" : RQ_LATE_TEXT("it has a stretched filter"),
             RQ_LATE_TEXT("use 'nearest' or 'linear'"));
  }
  constexpr Coordinates kModes[] = {Coordinates::kAsymmetric, Coordinates::kHalfPixel,
                                    Coordinates::kAlignCorners};
  const auto* const mode = std::find_if(std::begin(kModes), std::end(kModes), [&](Coordinates one) {
    for (size_t i = 2; i < dims.size(); ++i) {
      const Line line{dims[i], result[i]};
      const bool same =
          walk.nearest ? SameNearest(walk.axes[i], line, one) : SameLinear(walk.axes[i], line, one);
      if (!same) return false;
    }
    return true;
  });
  if (mode == std::end(kModes)) {
    w.Refuse(
        RQ_LATE_TEXT("it picks other elements than LiteRT's RESIZE does"),
        RQ_LATE_TEXT(
            "use the coordinates 'half_pixel', 'align_corners' or 'asymmetric' (with 'floor')"));
  }
  const Form form = walk.nearest ? w.NativeForm(x) : w.FormOnOneGrid(w.TailOf(false), x);
  const Image from = ImageOf(w, x, form);
  const Shape shape = ImageShape(w, node.output());
  const int32_t size = w.AddInts({shape[1], shape[2]});
  const bool align = *mode == Coordinates::kAlignCorners;
  const bool half = *mode == Coordinates::kHalfPixel;
  std::vector<Option> options;
  if (walk.nearest) {
    using Field = field::ResizeNearestNeighborOptions;
    options = {FlagOption(Field::kAlignCorners, align), FlagOption(Field::kHalfPixelCenters, half)};
  } else {
    using Field = field::ResizeBilinearOptions;
    options = {FlagOption(Field::kAlignCorners, align), FlagOption(Field::kHalfPixelCenters, half)};
  }
  const Grid grid = w.tensor(from.tensor).grid;
  Tail tail;
  tail.value = node.output();
  const int32_t y =
      w.Add(walk.nearest ? Builtin::kRESIZE_NEAREST_NEIGHBOR : Builtin::kRESIZE_BILINEAR,
            {from.tensor, size}, node.output()->name, w.TypeOf(x), shape, options, grid);
  FinishImage(w, tail, y, form);
}

}  // namespace requant::tflite
