// Det (onnx docs/Operators.md) and com.microsoft::Inverse (onnxruntime docs/ContribOperators.md),
// of the matrices in the last two dimensions.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "ops/convolution/convolve.h"
#include "ops/infer_util.h"
#include "ops/table.h"

namespace requant {
namespace {

void InferInverse(InferContext& context) {
  RequireFloat(context, 0);
  RequireMinRank(context, 0, 2);
  if (const SymbolicShape* shape = context.shape(0)) {
    MergeDims(shape->back(), (*shape)[shape->size() - 2], "sides of a matrix");
  }
  SameAsInput(context);
}

void InferDet(InferContext& context) {
  InferInverse(context);
  if (context.outputs[0].shape) {
    context.outputs[0].shape->resize(context.outputs[0].shape->size() - 2);
  }
}

/// Gaussian elimination with partial pivoting on n rows of `width` >= n elements. In the first n
/// columns it clears everything below the diagonal and, with `above`, above it. Returns the
/// determinant of those columns, or 0 as soon as there is no pivot.
double Eliminate(std::vector<double>& m, size_t n, size_t width, bool above) {
  double det = 1;
  for (size_t k = 0; k < n; ++k) {
    size_t pivot = k;
    for (size_t i = k + 1; i < n; ++i) {
      if (std::fabs(m[i * width + k]) > std::fabs(m[pivot * width + k])) pivot = i;
    }
    if (m[pivot * width + k] == 0) return 0;
    if (pivot != k) {
      double* rows = m.data();
      std::swap_ranges(rows + k * width, rows + (k + 1) * width, rows + pivot * width);
      det = -det;
    }
    det *= m[k * width + k];
    for (size_t i = above ? 0 : k + 1; i < n; ++i) {
      if (i == k) continue;
      const double factor = m[i * width + k] / m[k * width + k];
      for (size_t j = k; j < width; ++j) m[i * width + j] -= factor * m[k * width + j];
    }
  }
  return det;
}

/// The number of rows of the matrices. Throws kShapeMismatch.
int64_t SideOf(const Node& node, const Tensor& x) {
  const int64_t n = x.rank() >= 2 ? x.dim(x.rank() - 1) : -1;
  if (n < 0 || x.dim(x.rank() - 2) != n) {
    Fail(ErrorCode::kShapeMismatch, StrCat(node.op_type, " of ", ShapeToString(x.shape())));
  }
  return n;
}

void EvaluateDet(EvalContext& context) {
  const Tensor& x = context.input(0);
  const int64_t n = SideOf(context.node, x);
  Tensor out(x.dtype(), Shape(x.shape().begin(), x.shape().end() - 2));
  const std::vector<double> values = x.ToDoubles();
  for (int64_t i = 0; i < out.count(); ++i) {
    std::vector<double> matrix(values.begin() + i * n * n, values.begin() + (i + 1) * n * n);
    const double det = Eliminate(matrix, static_cast<size_t>(n), static_cast<size_t>(n), false);
    StoreSum(out, i, det);
  }
  context.outputs[0] = std::move(out);
}

/// Inverts by elimination of [A, 1]; a singular matrix gives NaN.
void EvaluateInverse(EvalContext& context) {
  const Tensor& x = context.input(0);
  const auto n = static_cast<size_t>(SideOf(context.node, x));
  Tensor out(x.dtype(), x.shape());
  const std::vector<double> values = x.ToDoubles();
  std::vector<double> rows(values.empty() ? 0 : CheckedMul(2, n * n));
  for (size_t first = 0; first < values.size(); first += n * n) {
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) {
        rows[2 * n * i + j] = values[first + n * i + j];
        rows[2 * n * i + n + j] = i == j ? 1 : 0;
      }
    }
    const bool singular = Eliminate(rows, n, 2 * n, true) == 0;
    for (size_t i = 0; i < n; ++i) {
      const double* row = rows.data() + 2 * n * i;
      for (size_t j = 0; j < n; ++j) {
        StoreSum(out, static_cast<int64_t>(first + n * i + j),
                 singular ? std::numeric_limits<double>::quiet_NaN() : row[n + j] / row[i]);
      }
    }
  }
  context.outputs[0] = std::move(out);
}

constexpr OpDef kRows[] = {
    {"Det", "", 11, 1, 1, 1, InferDet, EvaluateDet, QuantRule::kFloat},
    {"Inverse", kMicrosoftDomain, 1, 1, 1, 1, InferInverse, EvaluateInverse, QuantRule::kFloat},
};

}  // namespace

std::span<const OpDef> SquareMatrixOps() { return kRows; }

}  // namespace requant
