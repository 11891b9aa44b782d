// AffineGrid: theta [N, 2, 3] times every position (x, y, 1) of an image of size [N, C, H, W], or
// theta [N, 3, 4] times (x, y, z, 1) of [N, C, D, H, W] (onnx docs/Operators.md, AffineGrid-20).
// Where ONNX leaves something open, it follows ONNX Runtime.
#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/convolution/convolve.h"
#include "ops/infer_util.h"
#include "ops/table.h"

namespace requant {
namespace {

/// The shape of the grid, [N, spatial..., 2 or 3]. Throws kInvalidModel.
Shape GridShape(const std::vector<int64_t>& size) {
  if (size.size() < 4 || size.size() > 5 || *std::min_element(size.begin(), size.end()) < 0) {
    Fail(ErrorCode::kInvalidModel,
         StrCat("AffineGrid of a size of ", ShapeToString(size), ", not [N, C, H, W]"));
  }
  Shape shape = size;
  shape.erase(shape.begin() + 1);
  shape.push_back(static_cast<int64_t>(size.size()) - 2);
  return shape;
}

/// Throws kShapeMismatch unless there is a matrix for every image.
void CheckTheta(const Shape& theta, const Shape& grid) {
  if (theta == Shape{grid[0], grid.back(), grid.back() + 1}) return;
  Fail(ErrorCode::kShapeMismatch, StrCat("theta of AffineGrid is ", ShapeToString(theta),
                                         " for a grid of ", ShapeToString(grid)));
}

void InferAffineGrid(InferContext& context) {
  RequireFloat(context, 0);
  RequireRank(context, 0, 3);
  RequireRank(context, 1, 1);
  RequireDType(context, 1, {DType::kInt64});
  std::optional<SymbolicShape> shape;
  if (const Tensor* size = context.constant(1)) {
    const Shape grid = GridShape(size->ToInts());
    if (context.inputs[0].IsStatic()) CheckTheta(context.inputs[0].StaticShape(), grid);
    shape = ToSymbolic(grid);
  }
  SetOutput(context, 0, context.inputs[0].dtype, std::move(shape));
}

/// The coordinate of pixel i of n. -1 and 1 are the centers of the first and last pixel (`align`),
/// or the outer borders of the image. With `align` a single pixel has 1 (ONNX Runtime,
/// affine_grid.cc).
double Coordinate(int64_t i, int64_t n, bool align) {
  if (align && n == 1) return 1;
  return static_cast<double>(2 * i + 1 - n) / static_cast<double>(align ? n - 1 : n);
}

void EvaluateAffineGrid(EvalContext& context) {
  const Tensor& theta = context.input(0);
  const std::vector<int64_t> size = context.input(1).ToInts();
  const Shape shape = GridShape(size);
  CheckTheta(theta.shape(), shape);
  Tensor out(theta.dtype(), shape);
  context.outputs[0] = out;
  if (out.count() == 0) return;
  const bool align = context.attributes().Int("align_corners", 0) != 0;
  const auto axes = static_cast<size_t>(theta.dim(1));
  std::vector<double> lines[3];  // the coordinates along x, y and z
  for (size_t k = 0; k < axes; ++k) {
    const int64_t pixels = size[axes + 1 - k];
    for (int64_t i = 0; i < pixels; ++i) lines[k].push_back(Coordinate(i, pixels, align));
  }
  const std::vector<double> factors = theta.ToDoubles();
  const double* matrix = factors.data();
  size_t at[3] = {};  // the current position, image by image
  for (int64_t index = 0; index < out.count();) {
    const double* factor = matrix;
    for (size_t row = 0; row < axes; ++row, factor += axes + 1) {
      double sum = factor[axes];
      for (size_t k = 0; k < axes; ++k) sum += factor[k] * lines[k][at[k]];
      StoreSum(out, index++, sum);
    }
    size_t k = 0;
    while (k < axes && ++at[k] == lines[k].size()) at[k++] = 0;
    if (k == axes) matrix = factor;
  }
}

constexpr OpDef kRows[] = {
    {"AffineGrid", "", 20, 2, 2, 1, InferAffineGrid, EvaluateAffineGrid, QuantRule::kFloat},
};

}  // namespace

std::span<const OpDef> AffineGridOps() { return kRows; }

}  // namespace requant
