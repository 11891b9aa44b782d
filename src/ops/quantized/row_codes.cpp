// DynamicQuantizeRows and MatMulIntegerRows of ai.requant (numeric/row_codes.h): types and
// references.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/str_cat.h"
#include "numeric/affine.h"
#include "numeric/row_codes.h"
#include "ops/infer_util.h"
#include "ops/table.h"

namespace requant {
namespace {

void InferDynamicQuantizeRows(InferContext& context) {
  RequireDType(context, 0, {DType::kFloat32});
  RequireMinRank(context, 0, 1);
  std::optional<SymbolicShape> codes = context.inputs[0].shape, rows = codes;
  if (rows && !rows->empty()) rows->back() = Dim(1);
  SetOutput(context, 0, DType::kUint8, codes);
  SetOutput(context, 1, DType::kFloat32, rows);
  SetOutput(context, 2, DType::kUint8, rows);
}

void EvaluateDynamicQuantizeRows(EvalContext& context) {
  const Tensor& x = context.input(0);
  const int64_t width = x.shape().back();
  Shape per_row = x.shape();
  per_row.back() = 1;
  Tensor codes(DType::kUint8, x.shape()), scales(DType::kFloat32, per_row),
      zeros(DType::kUint8, per_row);
  for (int64_t row = 0; row < NumElements(per_row); ++row) {
    const float* from = x.data<float>() + row * width;
    float lo = 0, hi = 0;
    bool is_nan = false;
    for (int64_t i = 0; i < width; ++i) {
      is_nan = is_nan || std::isnan(from[i]);
      lo = std::min(lo, from[i]);
      hi = std::max(hi, from[i]);
    }
    const auto [scale, zero] = is_nan ? RowGridOf(NAN, NAN) : RowGridOf(lo, hi);
    scales.data<float>()[row] = scale;
    zeros.data<uint8_t>()[row] = static_cast<uint8_t>(zero);
    for (int64_t i = 0; i < width; ++i) {
      codes.data<uint8_t>()[row * width + i] =
          static_cast<uint8_t>(QuantizeLinear(from[i], scale, zero, {0, 255}));
    }
  }
  context.outputs[0] = codes;
  if (context.outputs.size() > 1) context.outputs[1] = scales;
  if (context.outputs.size() > 2) context.outputs[2] = zeros;
}

void InferMatMulIntegerRows(InferContext& context) {
  RequireDType(context, 0, {DType::kInt8, DType::kUint8});
  RequireDType(context, 1, {DType::kInt8, DType::kUint8});
  RequireRank(context, 1, 2);
  for (const size_t slot : {2, 3, 4}) RequireDType(context, slot, {DType::kFloat32});
  RequireDType(context, 5, {DType::kUint8});
  RequireDType(context, 6, {DType::kInt32});
  if (context.has(5)) RequireInput(context, 6);
  std::optional<SymbolicShape> shape = context.inputs[0].shape;
  const SymbolicShape* w = context.shape(1);
  if (shape && !shape->empty()) {
    if (w) MergeDims(shape->back(), (*w)[0], "the inner dimension");
    shape->back() = w ? (*w)[1] : Dim();
  }
  SetOutput(context, 0, DType::kFloat32, shape);
}

/// The number of a column, of numbers given for each or once for all.
float At(const Tensor& numbers, int64_t column, int64_t columns) {
  if (numbers.count() != 1 && numbers.count() != columns) {
    Fail(ErrorCode::kShapeMismatch,
         StrCat(ShapeToString(numbers.shape()), " numbers for ", columns, " columns"));
  }
  return numbers.data<float>()[numbers.count() == 1 ? 0 : column];
}

void EvaluateMatMulIntegerRows(EvalContext& context) {
  const Tensor &codes = context.input(0), &w = context.input(1), &s = context.input(2);
  const int64_t inner = w.dim(0), columns = w.dim(1);
  Shape shape = codes.shape();
  const int64_t rows = s.count();
  if (shape.empty() || shape.back() != inner || codes.count() != rows * inner ||
      (context.has(5) &&
       (context.input(5).count() != rows || context.input(6).count() != columns))) {
    Fail(ErrorCode::kShapeMismatch,
         StrCat("codes of ", ShapeToString(shape), ", weights of ", ShapeToString(w.shape()),
                " and scales of ", ShapeToString(s.shape())));
  }
  shape.back() = columns;
  Tensor y(DType::kFloat32, shape);
  const std::vector<int64_t> q = codes.ToInts(), weights = w.ToInts();
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      uint32_t sum = 0;  // wraps, as the sums of MatMulInteger do
      for (int64_t k = 0; k < inner; ++k) {
        sum += static_cast<uint32_t>(q[static_cast<size_t>(row * inner + k)] *
                                     weights[static_cast<size_t>(k * columns + column)]);
      }
      if (context.has(5)) {
        sum -= static_cast<uint32_t>(context.input(5).data<uint8_t>()[row]) *
               static_cast<uint32_t>(context.input(6).data<int32_t>()[column]);
      }
      float value =
          static_cast<float>(static_cast<int32_t>(sum)) * At(context.input(3), column, columns);
      value *= s.data<float>()[row];
      if (context.has(4)) value += At(context.input(4), column, columns);
      y.data<float>()[row * columns + column] = value;
    }
  }
  context.outputs[0] = y;
}

constexpr OpDef kRows[] = {
    OnIntegers({"DynamicQuantizeRows", kRequantDomain, 1, 1, 1, 3, InferDynamicQuantizeRows,
                EvaluateDynamicQuantizeRows, QuantRule::kFloat}),
    OnIntegers({"MatMulIntegerRows", kRequantDomain, 1, 4, 7, 1, InferMatMulIntegerRows,
                EvaluateMatMulIntegerRows, QuantRule::kFloat, FusionRule::kOutFusable}),
};

}  // namespace

std::span<const OpDef> RowCodesOps() { return kRows; }

}  // namespace requant
