// MatMul and Gemm on floats and on 32- and 64-bit integers, as ONNX defines them.
#include <algorithm>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/elementwise/elementwise.h"
#include "ops/shape_rules.h"
#include "ops/table.h"

namespace requant {
namespace {

void RequireMatrixDType(const InferContext& context) {
  RequireDType(context, 0,
               {DType::kFloat32, DType::kFloat64, DType::kInt32, DType::kInt64, DType::kUint32,
                DType::kUint64});
  RequireSameDType(context, 0, 1);
}

/// The type of sums: double for floats, modulo 2^64 for integers.
template <typename T>
using SumOf = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;

/// sums[0, n) = row[0, k) * b[k, n].
template <typename T>
void MultiplyRow(const T* row, const T* b, int64_t k, int64_t n, std::vector<SumOf<T>>& sums) {
  std::fill(sums.begin(), sums.end(), SumOf<T>{0});
  SumOf<T>* to = sums.data();
  for (int64_t i = 0; i < k; ++i) {
    const auto factor = static_cast<SumOf<T>>(row[i]);
    const T* from = b + i * n;
    for (int64_t j = 0; j < n; ++j) to[j] += factor * static_cast<SumOf<T>>(from[j]);
  }
}

/// Calls `function(T{})` for the dtypes that matrix products take.
template <typename Function>
void VisitMatrix(DType dtype, Function&& function) {
  switch (dtype) {
    case DType::kFloat32:
      return function(float{});
    case DType::kFloat64:
      return function(double{});
    case DType::kInt32:
      return function(int32_t{});
    case DType::kInt64:
      return function(int64_t{});
    case DType::kUint32:
      return function(uint32_t{});
    case DType::kUint64:
      return function(uint64_t{});
    default:
      Fail(ErrorCode::kTypeMismatch, StrCat("a matrix product of ", DTypeName(dtype)));
  }
}

// --- MatMul

void InferMatMul(InferContext& context) {
  RequireMatrixDType(context);
  std::optional<SymbolicShape> shape;
  if (context.shape(0) && context.shape(1)) {
    shape = MatMulOutputShape(*context.shape(0), *context.shape(1));
  }
  SetOutput(context, 0, context.inputs[0].dtype, std::move(shape));
}

void EvaluateMatMul(EvalContext& context) {
  const Tensor& a = context.input(0);
  const Tensor& b = context.input(1);
  const ValueType type{a.dtype(), MatMulOutputShape(ToSymbolic(a.shape()), ToSymbolic(b.shape()))};
  Tensor out(a.dtype(), type.StaticShape());
  const int64_t m = a.rank() > 1 ? a.dim(a.rank() - 2) : 1;
  const int64_t k = a.dim(a.rank() - 1);
  const int64_t n = b.rank() > 1 ? b.dim(b.rank() - 1) : 1;
  const auto batch_of = [](const Tensor& t) {
    return t.rank() > 2 ? Shape(t.shape().begin(), t.shape().end() - 2) : Shape{};
  };
  const Shape batch_a = batch_of(a);
  const Shape batch_b = batch_of(b);
  const Shape batch = BroadcastShapes(batch_a, batch_b);
  VisitMatrix(a.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const T* pa = a.data<T>();
    const T* pb = b.data<T>();
    T* to = out.data<T>();
    std::vector<SumOf<T>> sums(static_cast<size_t>(n));
    ForEachRow(PlanRows(batch, {&batch_a, &batch_b}), [&](const RowStep& row) {
      for (int64_t i = 0; i < row.length; ++i) {
        const int64_t at = row.output + i;
        const int64_t at_a = row.input[0] + i * row.step[0];
        const int64_t at_b = row.input[1] + i * row.step[1];
        for (int64_t r = 0; r < m; ++r) {
          MultiplyRow(pa + (at_a * m + r) * k, pb + at_b * k * n, k, n, sums);
          for (int64_t j = 0; j < n; ++j) {
            to[(at * m + r) * n + j] = static_cast<T>(sums[static_cast<size_t>(j)]);
          }
        }
      }
    });
  });
  context.outputs[0] = std::move(out);
}

// --- Gemm

void InferGemm(InferContext& context) {
  RequireMatrixDType(context);
  RequireSameDType(context, 0, 2);
  RequireRank(context, 0, 2);
  RequireRank(context, 1, 2);
  SymbolicShape shape(2);
  const SymbolicShape unknown(2);
  const SymbolicShape* a = context.shape(0);
  const SymbolicShape* b = context.shape(1);
  SetOutput(
      context, 0, context.inputs[0].dtype,
      GemmOutputShape(context.attributes(), a ? *a : unknown, b ? *b : unknown, context.shape(2)));
}

/// The transposed copy of a matrix.
template <typename T>
std::vector<T> Transposed(const T* from, int64_t rows, int64_t columns) {
  std::vector<T> out(static_cast<size_t>(rows * columns));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      out[static_cast<size_t>(c * rows + r)] = from[r * columns + c];
    }
  }
  return out;
}

void EvaluateGemm(EvalContext& context) {
  const Tensor& a = context.input(0);
  const Tensor& b = context.input(1);
  const Tensor* c = context.has(2) ? &context.input(2) : nullptr;
  const SymbolicShape c_shape = c ? ToSymbolic(c->shape()) : SymbolicShape{};
  const ValueType type{a.dtype(), GemmOutputShape(context.attributes(), ToSymbolic(a.shape()),
                                                  ToSymbolic(b.shape()), c ? &c_shape : nullptr)};
  Tensor out(a.dtype(), type.StaticShape());
  const bool trans_a = context.attributes().Int("transA", 0) != 0;
  const bool trans_b = context.attributes().Int("transB", 0) != 0;
  const float alpha = context.attributes().Float("alpha", 1.0F);
  const float beta = context.attributes().Float("beta", 1.0F);
  const int64_t m = out.dim(0);
  const int64_t n = out.dim(1);
  const int64_t k = a.dim(trans_a ? 0 : 1);
  // C broadcasts to [M, N]: a step of 0 along the dimensions where it has 1 element.
  int64_t c_row = 0;
  int64_t c_column = 0;
  if (c != nullptr && c->rank() > 0) {
    const int64_t width = c->dim(c->rank() - 1);
    c_column = width == 1 ? 0 : 1;
    c_row = c->rank() == 2 && c->dim(0) != 1 ? width : 0;
  }
  VisitMatrix(a.dtype(), [&](auto tag) {
    using T = decltype(tag);
    std::vector<T> a_copy;
    std::vector<T> b_copy;
    if (trans_a) a_copy = Transposed(a.data<T>(), k, m);
    if (trans_b) b_copy = Transposed(b.data<T>(), n, k);
    const T* pa = trans_a ? a_copy.data() : a.data<T>();
    const T* pb = trans_b ? b_copy.data() : b.data<T>();
    const T* pc = c ? c->data<T>() : nullptr;
    T* to = out.data<T>();
    std::vector<SumOf<T>> sums(static_cast<size_t>(n));
    for (int64_t r = 0; r < m; ++r) {
      MultiplyRow(pa + r * k, pb, k, n, sums);
      for (int64_t j = 0; j < n; ++j) {
        const SumOf<T> sum = sums[static_cast<size_t>(j)];
        const T addend = pc ? pc[r * c_row + j * c_column] : T{0};
        if constexpr (std::is_floating_point_v<T>) {
          *to++ = static_cast<T>(alpha * sum + (pc ? beta * static_cast<double>(addend) : 0.0));
        } else {
          T product = static_cast<T>(sum);
          if (alpha != 1.0F) product = static_cast<T>(alpha * static_cast<double>(product));
          const T scaled =
              beta == 1.0F ? addend : static_cast<T>(beta * static_cast<double>(addend));
          *to++ = static_cast<T>(static_cast<uint64_t>(product) + static_cast<uint64_t>(scaled));
        }
      }
    }
  });
  context.outputs[0] = std::move(out);
}

constexpr OpDef kOps[] = {
    {"Gemm", "", 1, 2, 3, 1, InferGemm, EvaluateGemm, QuantRule::kMatMul, FusionRule::kOutFusable},
    {"MatMul", "", 1, 2, 2, 1, InferMatMul, EvaluateMatMul, QuantRule::kMatMul,
     FusionRule::kOutFusable},
};

}  // namespace

std::span<const OpDef> MatMulOps() { return kOps; }

}  // namespace requant
