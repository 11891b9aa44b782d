// Det (onnx docs/Operators.md): of the matrices in the last two dimensions.
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/infer_util.h"
#include "ops/table.h"

namespace requant {
namespace {

void InferDet(InferContext& context) {
  RequireFloat(context, 0);
  RequireMinRank(context, 0, 2);
  std::optional<SymbolicShape> shape = context.inputs[0].shape;
  if (shape) {
    MergeDims((*shape)[shape->size() - 1], (*shape)[shape->size() - 2], "sides of a matrix");
    shape->resize(shape->size() - 2);
  }
  SetOutput(context, 0, context.inputs[0].dtype, shape);
}

/// Gaussian elimination with partial pivoting; the matrix is used up.
double Determinant(std::vector<double>& m, size_t n) {
  double det = 1;
  for (size_t k = 0; k < n; ++k) {
    size_t pivot = k;
    for (size_t i = k + 1; i < n; ++i) {
      if (std::fabs(m[i * n + k]) > std::fabs(m[pivot * n + k])) pivot = i;
    }
    if (m[pivot * n + k] == 0) return 0;
    if (pivot != k) {
      std::swap_ranges(m.begin() + static_cast<std::ptrdiff_t>(k * n),
                       m.begin() + static_cast<std::ptrdiff_t>((k + 1) * n),
                       m.begin() + static_cast<std::ptrdiff_t>(pivot * n));
      det = -det;
    }
    det *= m[k * n + k];
    for (size_t i = k + 1; i < n; ++i) {
      const double factor = m[i * n + k] / m[k * n + k];
      for (size_t j = k; j < n; ++j) m[i * n + j] -= factor * m[k * n + j];
    }
  }
  return det;
}

void EvaluateDet(EvalContext& context) {
  const Tensor& x = context.input(0);
  const int64_t n = x.rank() >= 2 ? x.dim(x.rank() - 1) : -1;
  if (n < 0 || x.dim(x.rank() - 2) != n) {
    Fail(ErrorCode::kShapeMismatch, StrCat("Det of ", ShapeToString(x.shape())));
  }
  Tensor out(x.dtype(), Shape(x.shape().begin(), x.shape().end() - 2));
  const std::vector<double> values = x.ToDoubles();
  for (int64_t i = 0; i < out.count(); ++i) {
    std::vector<double> matrix(values.begin() + i * n * n, values.begin() + (i + 1) * n * n);
    const double det = Determinant(matrix, static_cast<size_t>(n));
    if (x.dtype() == DType::kFloat64) {
      out.data<double>()[i] = det;
    } else {
      out.data<float>()[i] = static_cast<float>(det);
    }
  }
  context.outputs[0] = std::move(out);
}

constexpr OpDef kRows[] = {
    {"Det", "", 11, 1, 1, 1, InferDet, EvaluateDet, QuantRule::kFloat},
};

}  // namespace

std::span<const OpDef> SquareMatrixOps() { return kRows; }

}  // namespace requant
