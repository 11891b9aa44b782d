// MatMulInteger, QLinearMatMul (onnx docs/Operators.md) and com.microsoft::QGemm (ONNX Runtime
// docs/ContribOperators.md).
#include <cmath>
#include <vector>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "numeric/multiplier.h"
#include "numeric/requantize_prepare.h"
#include "ops/elementwise/elementwise.h"
#include "ops/quantized/qlinear.h"
#include "ops/shape_rules.h"
#include "ops/table.h"

namespace requant {
namespace {

/// The product of two tensors of matrices.
struct Product {
  Shape shape;  // of the output
  int64_t rows, inner, columns;
  RowPlan plan;  // walks the batches: inputs 0 and 1 are matrix indices of a and b
};

Product PlanProduct(const Shape& a, const Shape& b) {
  const ValueType type{DType::kInt32, MatMulOutputShape(ToSymbolic(a), ToSymbolic(b))};
  Product out;
  out.shape = type.StaticShape();
  out.inner = a.back();
  out.rows = a.size() > 1 ? a[a.size() - 2] : 1;
  out.columns = b.size() > 1 ? b.back() : 1;
  const Shape batch_a(a.begin(), a.size() > 2 ? a.end() - 2 : a.begin());
  const Shape batch_b(b.begin(), b.size() > 2 ? b.end() - 2 : b.begin());
  out.plan = PlanRows(BroadcastShapes(batch_a, batch_b), {&batch_a, &batch_b});
  return out;
}

/// The zero point of a line. a has one, one per row, or one per row of every matrix; b likewise per
/// column.
int32_t PickZero(const std::vector<int32_t>& zeros, int64_t matrix, int64_t line, int64_t lines) {
  if (zeros.size() == 1) return zeros[0];
  if (static_cast<int64_t>(zeros.size()) == lines) return zeros[static_cast<size_t>(line)];
  return zeros[static_cast<size_t>(matrix * lines + line)];
}

/// Calls `store(index, accumulator, row, column)`; `row` and `column` count within the matrix.
template <typename Store>
void Multiply(const Product& p, const Tensor& a, const std::vector<int32_t>& a_zeros,
              const Tensor& b, const std::vector<int32_t>& b_zeros, Store&& store) {
  const std::vector<int32_t> left = CenteredValues(a, 0);
  const std::vector<int32_t> right = CenteredValues(b, 0);
  std::vector<int64_t> sums(static_cast<size_t>(p.columns));
  int64_t index = 0;
  ForEachRow(p.plan, [&](const RowStep& step) {
    for (int64_t i = 0; i < step.length; ++i) {
      const int64_t matrix_a = step.input[0] + i * step.step[0];
      const int64_t matrix_b = step.input[1] + i * step.step[1];
      for (int64_t row = 0; row < p.rows; ++row) {
        std::fill(sums.begin(), sums.end(), 0);
        const int32_t a_zero = PickZero(a_zeros, matrix_a, row, p.rows);
        for (int64_t k = 0; k < p.inner; ++k) {
          const int64_t value =
              left[static_cast<size_t>((matrix_a * p.rows + row) * p.inner + k)] - a_zero;
          const int32_t* line = right.data() + (matrix_b * p.inner + k) * p.columns;
          for (int64_t c = 0; c < p.columns; ++c) {
            sums[static_cast<size_t>(c)] +=
                value * (line[c] - PickZero(b_zeros, matrix_b, c, p.columns));
          }
        }
        for (int64_t c = 0; c < p.columns; ++c) {
          store(index++, Accumulator(sums[static_cast<size_t>(c)]), row, c);
        }
      }
    }
  });
}

std::optional<SymbolicShape> InferredProduct(const InferContext& context, size_t a, size_t b) {
  if (context.shape(a) == nullptr || context.shape(b) == nullptr) return std::nullopt;
  return MatMulOutputShape(*context.shape(a), *context.shape(b));
}

std::vector<int32_t> ZerosOf(const EvalContext& context, size_t slot, int64_t lines,
                             int64_t matrices) {
  if (!context.has(slot)) return {0};
  const Tensor& tensor = context.input(slot);
  if (tensor.count() != 1 && tensor.count() != lines &&
      tensor.count() != CheckedMul64(lines, matrices)) {
    Fail(ErrorCode::kShapeMismatch, StrCat(tensor.count(), " zero points for ", lines,
                                           " rows or columns of ", context.node.op_type));
  }
  std::vector<int32_t> out;
  for (const int64_t value : tensor.ToInts()) out.push_back(static_cast<int32_t>(value));
  return out;
}

int64_t MatricesOf(const Tensor& tensor, int64_t elements) {
  return elements > 0 ? tensor.count() / elements : 0;
}

// --- MatMulInteger

void InferMatMulInteger(InferContext& context) {
  RequireDType(context, 0, {DType::kInt8, DType::kUint8});
  RequireDType(context, 1, {DType::kInt8, DType::kUint8});
  RequireSameDType(context, 0, 2);
  RequireSameDType(context, 1, 3);
  SetOutput(context, 0, DType::kInt32, InferredProduct(context, 0, 1));
}

void EvaluateMatMulInteger(EvalContext& context) {
  const Tensor& a = context.input(0);
  const Tensor& b = context.input(1);
  const Product p = PlanProduct(a.shape(), b.shape());
  Tensor out(DType::kInt32, p.shape);
  int32_t* to = out.data<int32_t>();
  Multiply(p, a, ZerosOf(context, 2, p.rows, MatricesOf(a, p.rows * p.inner)), b,
           ZerosOf(context, 3, p.columns, MatricesOf(b, p.columns * p.inner)),
           [&](int64_t i, int32_t accumulator, int64_t, int64_t) { to[i] = accumulator; });
  context.outputs[0] = out;
}

// --- QLinearMatMul: a, scale, zero, b, scale, zero, y scale, zero

void InferQLinearMatMul(InferContext& context) {
  for (const size_t slot : {0, 3, 7}) RequireDType(context, slot, {DType::kInt8, DType::kUint8});
  CheckOperand(context, context.inputs[0].dtype, 1, 2, Dim());
  CheckOperand(context, context.inputs[3].dtype, 4, 5, Dim(), ScaleRule::kPositiveOrZero);
  CheckOperand(context, DType::kUndefined, 6, 7);
  SetOutput(context, 0, QuantizedDType(context, 7, context.inputs[0].dtype),
            InferredProduct(context, 0, 3));
}

void EvaluateQLinearMatMul(EvalContext& context) {
  const Tensor& a = context.input(0);
  const Tensor& b = context.input(3);
  const DType dtype = QuantizedDType(context, 7, a.dtype());
  const Product p = PlanProduct(a.shape(), b.shape());
  const QuantOperand qa = ReadOperand(context, a.dtype(), 1, 2, p.rows);
  const QuantOperand qb =
      ReadOperand(context, b.dtype(), 4, 5, p.columns, ScaleRule::kPositiveOrZero);
  const QuantOperand qy = ReadOperand(context, dtype, 6, 7);
  // One multiplier for each column, or for each row and column.
  std::vector<double> multipliers;
  for (const float scale_a : qa.scales) {
    for (const float scale_b : qb.scales) {
      multipliers.push_back(ProductMultiplier(context.requantize, scale_a, scale_b, qy.scales[0]));
    }
  }
  const PreparedRequantize prepared =
      PrepareRequantize(context.requantize, multipliers, {kAnyAccumulator}, qy.zeros[0],
                        ByteMin(dtype), ByteMax(dtype));
  const RequantizeParams params = prepared.Params();
  const auto columns = static_cast<int64_t>(qb.scales.size());
  Tensor out(dtype, p.shape);
  Multiply(p, a, qa.zeros, b, qb.zeros,
           [&](int64_t i, int32_t accumulator, int64_t row, int64_t column) {
             const int64_t channel =
                 (qa.scales.size() == 1 ? 0 : row * columns) + (columns == 1 ? 0 : column);
             StoreByte(out.raw(), i,
                       ApplyRequantize(accumulator, params, static_cast<int32_t>(channel)));
           });
  context.outputs[0] = out;
}

// --- QGemm: A, scale, zero, B, scale, zero, C (int32), y scale, zero; float without a y scale

void InferQGemm(InferContext& context) {
  for (const size_t slot : {0, 3, 8}) RequireDType(context, slot, {DType::kInt8, DType::kUint8});
  RequireDType(context, 6, {DType::kInt32});
  Dim columns;
  std::optional<SymbolicShape> shape;
  if (context.shape(0) && context.shape(3)) {
    shape = GemmOutputShape(context.attributes(), *context.shape(0), *context.shape(3),
                            context.has(6) ? context.shape(6) : nullptr);
    columns = (*shape)[1];
  }
  CheckOperand(context, context.inputs[0].dtype, 1, 2);
  CheckOperand(context, context.inputs[3].dtype, 4, 5, columns, ScaleRule::kPositiveOrZero);
  DType dtype = DType::kFloat32;
  if (context.has(7)) {
    CheckOperand(context, DType::kUndefined, 7, 8);
    dtype = QuantizedDType(context, 8, context.inputs[0].dtype);
  }
  SetOutput(context, 0, dtype, shape);
}

void EvaluateQGemm(EvalContext& context) {
  const Tensor& a = context.input(0);
  const Tensor& b = context.input(3);
  const Tensor* c = context.has(6) ? &context.input(6) : nullptr;
  const SymbolicShape c_shape = c ? ToSymbolic(c->shape()) : SymbolicShape{};
  const ValueType type{DType::kInt32,
                       GemmOutputShape(context.attributes(), ToSymbolic(a.shape()),
                                       ToSymbolic(b.shape()), c ? &c_shape : nullptr)};
  const Shape shape = type.StaticShape();
  const int64_t rows = shape[0], columns = shape[1];
  const bool trans_a = context.attributes().Int("transA", 0) != 0;
  const bool trans_b = context.attributes().Int("transB", 0) != 0;
  const int64_t inner = a.dim(trans_a ? 0 : 1);
  const bool quantized = context.has(7);
  const DType dtype = quantized ? QuantizedDType(context, 8, a.dtype()) : DType::kFloat32;
  const QuantOperand qa = ReadOperand(context, a.dtype(), 1, 2);
  const QuantOperand qb =
      ReadOperand(context, b.dtype(), 4, 5, columns, ScaleRule::kPositiveOrZero);
  const QuantOperand qy = quantized ? ReadOperand(context, dtype, 7, 8) : QuantOperand{{1}, {0}};
  // ONNX Runtime's order (contrib_ops/cpu/quantization/quant_gemm.cc): alpha * a_scale * b_scale,
  // then divided by y_scale. Multipliers have no sign, so the sign of alpha goes to the sums.
  const float alpha = context.attributes().Float("alpha", 1);
  const float scale_a = std::fabs(alpha) * qa.scales[0];
  std::vector<double> multipliers;
  for (size_t column = 0; column < static_cast<size_t>(columns); ++column) {
    multipliers.push_back(
        ProductMultiplier(context.requantize, scale_a, qb.ScaleAt(column), qy.scales[0]));
  }
  PreparedRequantize prepared;
  if (quantized) {
    prepared = PrepareRequantize(context.requantize, multipliers, {kAnyAccumulator}, qy.zeros[0],
                                 ByteMin(dtype), ByteMax(dtype));
  }
  const RequantizeParams params = prepared.Params();
  const std::vector<int32_t> left = CenteredValues(a, qa.zeros[0]);
  const std::vector<int32_t> right = CenteredValues(b, 0);
  const auto bias_at = [&](int64_t row, int64_t column) -> int64_t {
    if (c == nullptr) return 0;
    const Shape& s = c->shape();
    const int64_t width = s.empty() ? 1 : s.back();
    const int64_t height = s.size() < 2 ? 1 : s[0];
    return c->data<int32_t>()[(height == 1 ? 0 : row) * width + (width == 1 ? 0 : column)];
  };
  Tensor out(dtype, shape);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      const auto channel = static_cast<size_t>(column);
      const int32_t zero = qb.ZeroAt(channel);
      int64_t sum = bias_at(row, column);
      for (int64_t k = 0; k < inner; ++k) {
        const int64_t at_a = trans_a ? k * rows + row : row * inner + k;
        const int64_t at_b = trans_b ? column * inner + k : k * columns + column;
        sum += static_cast<int64_t>(left[static_cast<size_t>(at_a)]) *
               (right[static_cast<size_t>(at_b)] - zero);
      }
      const int32_t accumulator = Accumulator(alpha < 0 ? -sum : sum);
      const int64_t index = row * columns + column;
      if (quantized) {
        StoreByte(out.raw(), index,
                  ApplyRequantize(accumulator, params, static_cast<int32_t>(column)));
      } else {
        out.data<float>()[index] =
            static_cast<float>(accumulator) * static_cast<float>(multipliers[channel]);
      }
    }
  }
  context.outputs[0] = out;
}

constexpr OpDef kRows[] = {
    OnIntegers({"MatMulInteger", "", 10, 2, 4, 1, InferMatMulInteger, EvaluateMatMulInteger,
                QuantRule::kFloat, FusionRule::kOutFusable}),
    OnIntegers({"QLinearMatMul", "", 10, 8, 8, 1, InferQLinearMatMul, EvaluateQLinearMatMul,
                QuantRule::kFloat, FusionRule::kOutFusable}),
    OnIntegers({"QGemm", kMicrosoftDomain, 1, 6, 9, 1, InferQGemm, EvaluateQGemm, QuantRule::kFloat,
                FusionRule::kOutFusable}),
};

}  // namespace

std::span<const OpDef> QLinearMatMulOps() { return kRows; }

}  // namespace requant
