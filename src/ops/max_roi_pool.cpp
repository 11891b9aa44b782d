// MaxRoiPool: the largest elements of pooled_shape bins of every region of an image (onnx
// docs/Operators.md, MaxRoiPool-1). Where ONNX leaves something open, it follows ONNX Runtime.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/convolution/convolve.h"
#include "ops/infer_util.h"
#include "ops/table.h"

namespace requant {
namespace {

/// Height and width of the result of a region. Throws kInvalidModel.
std::vector<int64_t> PooledShape(const AttributeMap& attributes) {
  std::vector<int64_t> pooled = attributes.Ints("pooled_shape");
  if (pooled.size() == 2 && pooled[0] > 0 && pooled[1] > 0) return pooled;
  Fail(ErrorCode::kInvalidModel,
       StrCat("pooled_shape of MaxRoiPool is ", ShapeToString(pooled), ", not [height, width]"));
}

void InferMaxRoiPool(InferContext& context) {
  RequireFloat(context, 0);
  RequireSameDType(context, 0, 1);
  RequireRank(context, 0, 4);
  RequireRank(context, 1, 2);
  const std::vector<int64_t> pooled = PooledShape(context.attributes());
  SymbolicShape shape = {Dim(), Dim(), pooled[0], pooled[1]};
  if (context.shape(1)) shape[0] = (*context.shape(1))[0];
  if (context.shape(0)) shape[1] = (*context.shape(0))[1];
  SetOutput(context, 0, context.inputs[0].dtype, shape);
}

/// The pixels [first, end) of a bin along an axis of an image.
struct Span {
  int64_t first, end;
};

/// The bins of a region, which holds the pixels of both of its ends and at least one. Bins may
/// share pixels; those outside of the image are empty.
std::vector<Span> Bins(double from, double to, int64_t bins, int64_t size) {
  const auto length = static_cast<float>(std::max(to - from + 1, 1.0));
  const float step = length / static_cast<float>(bins);
  const auto inside = [&](float at) {
    return static_cast<int64_t>(
        std::clamp(static_cast<double>(at) + from, 0.0, static_cast<double>(size)));
  };
  std::vector<Span> spans;
  for (int64_t i = 0; i < bins; ++i) {
    spans.push_back({inside(std::floor(static_cast<float>(i) * step)),
                     inside(std::ceil(static_cast<float>(i + 1) * step))});
  }
  return spans;
}

/// The largest element of a bin of a plane; 0 of an empty one, `lowest` where all are NaN.
double Largest(const Tensor& x, int64_t plane, const Span& rows, const Span& columns,
               double lowest) {
  if (rows.first >= rows.end || columns.first >= columns.end) return 0;
  double most = lowest;
  for (int64_t row = rows.first; row < rows.end; ++row) {
    for (int64_t column = columns.first; column < columns.end; ++column) {
      const double value = x.AsDouble(plane + row * x.dim(3) + column);
      if (value > most) most = value;
    }
  }
  return most;
}

void EvaluateMaxRoiPool(EvalContext& context) {
  const Tensor& x = context.input(0);
  const Tensor& rois = context.input(1);
  const std::vector<int64_t> pooled = PooledShape(context.attributes());
  const float scale = context.attributes().Float("spatial_scale", 1);
  if (x.rank() != 4 || rois.rank() != 2 || rois.dim(1) != 5) {
    Fail(ErrorCode::kShapeMismatch,
         StrCat("MaxRoiPool of ", ShapeToString(x.shape()), " with ", ShapeToString(rois.shape())));
  }
  const double lowest = x.dtype() == DType::kFloat64 ? std::numeric_limits<double>::lowest()
                                                     : std::numeric_limits<float>::lowest();
  Tensor out(x.dtype(), {rois.dim(0), x.dim(1), pooled[0], pooled[1]});
  context.outputs[0] = out;
  int64_t index = 0;
  for (int64_t roi = 0; roi < rois.dim(0); ++roi) {
    const double image = rois.AsDouble(roi * 5);
    if (!(image >= 0 && image < static_cast<double>(x.dim(0)))) {
      Fail(ErrorCode::kInvalidArgument, StrCat("MaxRoiPool in image ", image));
    }
    double corners[4];  // x and y of the first, x and y of the last pixel
    for (int64_t i = 0; i < 4; ++i) {
      corners[i] = std::round(static_cast<float>(rois.AsDouble(roi * 5 + 1 + i)) * scale);
      if (std::isfinite(corners[i])) continue;
      Fail(ErrorCode::kInvalidArgument, StrCat("MaxRoiPool of a region that ends at ", corners[i]));
    }
    const std::vector<Span> rows = Bins(corners[1], corners[3], pooled[0], x.dim(2));
    const std::vector<Span> columns = Bins(corners[0], corners[2], pooled[1], x.dim(3));
    for (int64_t channel = 0; channel < x.dim(1); ++channel) {
      const int64_t plane =
          (static_cast<int64_t>(image) * x.dim(1) + channel) * x.dim(2) * x.dim(3);
      for (const Span& row : rows) {
        for (const Span& column : columns) {
          StoreSum(out, index++, Largest(x, plane, row, column, lowest));
        }
      }
    }
  }
}

constexpr OpDef kRows[] = {
    {"MaxRoiPool", "", 1, 2, 2, 1, InferMaxRoiPool, EvaluateMaxRoiPool, QuantRule::kFloat},
};

}  // namespace

std::span<const OpDef> MaxRoiPoolOps() { return kRows; }

}  // namespace requant
