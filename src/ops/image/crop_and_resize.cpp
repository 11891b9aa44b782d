// com.microsoft::CropAndResize: crops of images, resized to one size (onnxruntime
// docs/ContribOperators.md). Corners of a crop are corners of the result.
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/late_text.h"
#include "base/str_cat.h"
#include "ops/convolution/convolve.h"
#include "ops/infer_util.h"
#include "ops/table.h"

namespace requant {
namespace {

bool IsNearest(const AttributeMap& attributes) {
  const std::string mode = attributes.String("mode", "bilinear");
  if (mode == "bilinear" || mode == "nearest") return mode == "nearest";
  Fail(ErrorCode::kInvalidModel, StrCat(RQ_LATE_TEXT("CropAndResize with mode "), mode));
}

void InferCropAndResize(InferContext& context) {
  RequireFloat(context, 0);
  RequireSameDType(context, 0, 1);
  RequireRank(context, 0, 4);
  RequireRank(context, 1, 2);
  IsNearest(context.attributes());
  SymbolicShape shape(4);
  if (context.shape(1)) shape[0] = (*context.shape(1))[0];
  if (context.shape(0)) shape[1] = (*context.shape(0))[1];
  const ListArgument size = ReadList(context, nullptr, 3);
  if (size.known() && size.values.size() == 2) {
    for (size_t i = 0; i < 2; ++i) {
      if (size.values[i] > 0) shape[2 + i] = size.values[i];
    }
  }
  SetOutput(context, 0, context.inputs[0].dtype, shape);
}

/// The places in an image, of `size` pixels, of `count` pixels between two ends.
std::vector<float> Places(float first, float last, int64_t count, int64_t size) {
  const auto reach = static_cast<float>(size - 1);
  std::vector<float> places;
  const float step = count > 1 ? (last - first) * reach / static_cast<float>(count - 1) : 0;
  for (int64_t i = 0; i < count; ++i) {
    places.push_back(count > 1 ? first * reach + static_cast<float>(i) * step
                               : 0.5F * (first + last) * reach);
  }
  return places;
}

class Cropper {
 public:
  Cropper(const Tensor& x, const AttributeMap& attributes)
      : x_(x),
        nearest_(IsNearest(attributes)),
        outside_(attributes.Float("extrapolation_value", 0)) {}

  double At(int64_t plane, float row, float column) const {
    const auto inside = [](float place, int64_t size) {
      return place >= 0 && place <= static_cast<float>(size - 1);
    };
    if (!inside(row, x_.dim(2)) || !inside(column, x_.dim(3))) return outside_;
    if (nearest_) return Pixel(plane, std::round(row), std::round(column));
    const float top = std::floor(row);
    const float left = std::floor(column);
    const float bottom = std::ceil(row);
    const float right = std::ceil(column);
    const double above = Mix(Pixel(plane, top, left), Pixel(plane, top, right), column - left);
    const double below =
        Mix(Pixel(plane, bottom, left), Pixel(plane, bottom, right), column - left);
    return Mix(above, below, row - top);
  }

 private:
  static double Mix(double a, double b, float share) { return a + (b - a) * share; }
  double Pixel(int64_t plane, float row, float column) const {
    return x_.AsDouble((plane * x_.dim(2) + static_cast<int64_t>(row)) * x_.dim(3) +
                       static_cast<int64_t>(column));
  }

  const Tensor& x_;
  bool nearest_;
  float outside_;
};

void EvaluateCropAndResize(EvalContext& context) {
  const Tensor& x = context.input(0);
  const Tensor& rois = context.input(1);
  const std::vector<int64_t> images = context.input(2).ToInts();
  const std::vector<int64_t> size = context.input(3).ToInts();
  if (x.rank() != 4 || rois.rank() != 2 || rois.dim(1) != 4 || size.size() != 2 || size[0] < 1 ||
      size[1] < 1 || static_cast<int64_t>(images.size()) != rois.dim(0)) {
    Fail(ErrorCode::kShapeMismatch,
         StrCat(RQ_LATE_TEXT("CropAndResize of "), ShapeToString(x.shape()),
                RQ_LATE_TEXT(" with regions "), ShapeToString(rois.shape()), " to ",
                ShapeToString(size)));
  }
  const Cropper cropper(x, context.attributes());
  Tensor out(x.dtype(), {rois.dim(0), x.dim(1), size[0], size[1]});
  int64_t index = 0;
  for (int64_t roi = 0; roi < rois.dim(0); ++roi) {
    const int64_t image = images[static_cast<size_t>(roi)];
    if (image < 0 || image >= x.dim(0)) {
      Fail(ErrorCode::kInvalidArgument, StrCat(RQ_LATE_TEXT("CropAndResize in image "), image));
    }
    const auto end = [&](int64_t i) { return static_cast<float>(rois.AsDouble(roi * 4 + i)); };
    const std::vector<float> rows = Places(end(0), end(2), size[0], x.dim(2));
    const std::vector<float> columns = Places(end(1), end(3), size[1], x.dim(3));
    for (int64_t channel = 0; channel < x.dim(1); ++channel) {
      for (const float row : rows) {
        for (const float column : columns) {
          StoreSum(out, index++, cropper.At(image * x.dim(1) + channel, row, column));
        }
      }
    }
  }
  context.outputs[0] = out;
}

constexpr OpDef kRows[] = {
    {"CropAndResize", kMicrosoftDomain, 1, 4, 4, 1, InferCropAndResize, EvaluateCropAndResize,
     QuantRule::kFloat},
};

}  // namespace

std::span<const OpDef> CropAndResizeOps() { return kRows; }

}  // namespace requant
