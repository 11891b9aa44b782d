// QLinearMatMul, QGemm
// Before: QLinearMatMul(a, b), QGemm(a, b, c)
// After:  FixedPointMultiply(MatMulInteger(a, b) + c), clamped; a QGemm of float output multiplies
//         its sums by s_a * s_b instead
// Conditions: the parameters are constant, with one scale and zero point of `a`, and one of `b` or
//   one for each column.
// Formula, for column n with K products:
//   sum((qa - za) * (qb - zb[n])) + c                                     (subtract first)
//   sum(qa * qb) - zb[n] * sum(qa) - za * sum(qb) + K * za * zb[n] + c    (four terms)
//   Where `b` is constant, the last three terms are one constant.
//   (TVM src/relay/qnn/op/dense.cc: DenseFirstTerm to DenseFourthTerm.)
#include <algorithm>
#include <cmath>
#include <utility>

#include "numeric/multiplier.h"
#include "passes/integers/writer.h"
#include "passes/rewrite.h"

namespace requant::integers {
namespace {

struct Product {
  Value* a;  // with the summed dimension last
  Value* b;  // with the summed dimension before the last, or a vector
  Operand qa, qb;
  int64_t inner;  // number of products in a sum; -1: not known
};

AttributeMap KeepDims(bool keep) {
  AttributeMap attributes;
  attributes.Set("keepdims", int64_t{keep});
  return attributes;
}

/// The sums of codes along an axis as int32.
Value* SumAlong(Writer& writer, Value* codes, int64_t axis, bool keep, const std::string& part) {
  Value* axes = writer.Constant((part + "_axes").c_str(), Tensor::Vector<int64_t>({axis}));
  return writer.Add("ReduceSum", {writer.Centered(codes, 0, part.c_str()), axes},
                    (part + "_sums").c_str(), DType::kInt32, KeepDims(keep));
}

/// za * zb[n] * K - za * sum(qb) for a constant b, in the shape of b less its summed dimension.
Tensor ConstantTerms(const Product& in) {
  const Tensor& b = in.b->constant;
  const bool vector = b.rank() == 1;
  const int64_t columns = vector ? 1 : b.dim(b.rank() - 1);
  const int64_t za = in.qa.zeros[0];
  Shape shape = b.shape();
  if (vector || RankOf(in.a) == 1) {
    shape.erase(shape.end() - (vector ? 1 : 2));
  } else {
    shape[shape.size() - 2] = 1;
  }
  Tensor out(DType::kInt32, shape);
  for (int64_t i = 0; i < out.count(); ++i) {
    const int64_t matrix = i / columns, column = i % columns;
    int64_t sum = 0;
    for (int64_t k = 0; k < in.inner; ++k) {
      sum += b.AsInt64((matrix * in.inner + k) * columns + column);
    }
    const int64_t zb = in.qb.ZeroAt(static_cast<size_t>(column));
    out.data<int32_t>()[i] = Wrapped(za * (in.inner * zb - sum));
  }
  return out;
}

Value* FourTerms(Writer& writer, const Product& in) {
  const int32_t za = in.qa.zeros[0];
  const bool b_is_vector = RankOf(in.b) == 1;
  const Shape row = {static_cast<int64_t>(in.qb.zeros.size())};
  Value* sums = writer.Add("MatMulInteger", {in.a, in.b}, "products", DType::kInt32);
  if (in.qb.any_zero()) {
    Value* rows = SumAlong(writer, in.a, -1, !b_is_vector, "a");
    Value* zeros = writer.Numbers("b_zeros", in.qb.zeros, row);
    Value* term = writer.Add("Mul", {rows, zeros}, "a_term", DType::kInt32);
    sums = writer.Add("Sub", {sums, term}, "less_a_term", DType::kInt32);
  }
  if (za == 0) return sums;
  if (in.b->is_constant()) {
    Value* terms = writer.Constant("constant_terms", ConstantTerms(in));
    return writer.Add("Add", {sums, terms}, "plus_terms", DType::kInt32);
  }
  Value* columns = SumAlong(writer, in.b, b_is_vector ? -1 : -2, RankOf(in.a) != 1, "b");
  Value* term = writer.Add("Mul", {columns, writer.Scalar("a_zero", za)}, "b_term", DType::kInt32);
  sums = writer.Add("Sub", {sums, term}, "less_b_term", DType::kInt32);
  std::vector<int32_t> last;
  for (const int32_t zb : in.qb.zeros) {
    last.push_back(Wrapped(in.inner * (static_cast<int64_t>(za) * zb)));
  }
  return writer.Plus(sums, last, row, "zero_term");
}

Value* SubtractFirst(Writer& writer, const Product& in) {
  std::vector<Value*> inputs = {in.a, in.b};
  const bool right = in.qb.any_zero();
  if (right || in.qa.any_zero()) {
    inputs.push_back(writer.ZeroPoint("a_zero", in.qa.zeros, in.a->type.dtype));
  }
  if (right) inputs.push_back(writer.ZeroPoint("b_zero", in.qb.zeros, in.b->type.dtype));
  return writer.Add("MatMulInteger", std::move(inputs), "products", DType::kInt32);
}

int64_t KnownDim(const Value* value, size_t axis) { return (*value->type.shape)[axis].value; }

/// The shape of numbers for each column.
Shape RowOf(size_t count) { return count == 1 ? Shape{} : Shape{static_cast<int64_t>(count)}; }

bool KnowsTerms(const Writer& writer, const Product& in) {
  return !writer.four_terms() || in.inner >= 0 || !in.qa.any_zero();
}
constexpr const char* kOpenSum = "the number of its products is open";
constexpr const char* kOpenRank = "the ranks of its operands are not known";

/// The matrix with rows and columns exchanged: a constant, or a Transpose.
Value* Transposed(Writer& writer, Value* matrix, const char* part) {
  if (!matrix->is_constant()) {
    AttributeMap attributes;
    attributes.Set("perm", std::vector<int64_t>{1, 0});
    Value* out = writer.Add("Transpose", {matrix}, part, matrix->type.dtype, std::move(attributes));
    out->type.shape = SymbolicShape{(*matrix->type.shape)[1], (*matrix->type.shape)[0]};
    return out;
  }
  const Tensor& from = matrix->constant;
  const int64_t rows = from.dim(0), columns = from.dim(1);
  Tensor out(from.dtype(), {columns, rows});
  for (int64_t i = 0; i < from.count(); ++i) {
    static_cast<uint8_t*>(out.raw())[i % columns * rows + i / columns] =
        static_cast<const uint8_t*>(from.raw())[i];
  }
  return writer.Constant(part, std::move(out));
}

}  // namespace

Reason LegalizeMatMul(Writer& writer) {
  const Node& node = writer.node();
  Value* a = node.inputs[0];
  Value* b = node.inputs[3];
  const int64_t rank_a = RankOf(a), rank_b = RankOf(b);
  if (rank_a < 1 || rank_b < 1) return kOpenRank;
  const int64_t columns = rank_b == 1 ? 1 : KnownDim(b, static_cast<size_t>(rank_b) - 1);
  const std::optional<Operand> qa = ConstantOperand(node, 1, 2);
  const std::optional<Operand> qb = ConstantOperand(node, 4, 5, columns);
  const std::optional<Output> to = ConstantOutput(node, 6, 7);
  if (!qa || !qb || !to) return kParametersNotConstant;
  int64_t inner = KnownDim(b, static_cast<size_t>(rank_b == 1 ? 0 : rank_b - 2));
  if (inner < 0) inner = KnownDim(a, static_cast<size_t>(rank_a) - 1);
  const Product product{a, b, *qa, *qb, inner};
  if (!KnowsTerms(writer, product)) return kOpenSum;
  std::vector<double> multipliers;
  for (const float scale : qb->scales) {
    multipliers.push_back(
        ProductMultiplier(writer.form().requantize, qa->scales[0], scale, to->scale));
  }
  Value* sums = writer.four_terms() ? FourTerms(writer, product) : SubtractFirst(writer, product);
  writer.Finish(sums, multipliers, RowOf(multipliers.size()), *to);
  return {};
}

Reason LegalizeGemm(Writer& writer) {
  const Node& node = writer.node();
  if (RankOf(node.inputs[0]) != 2 || RankOf(node.inputs[3]) != 2) return kOpenRank;
  const bool trans_a = node.attributes.Int("transA", 0) != 0;
  const bool trans_b = node.attributes.Int("transB", 0) != 0;
  const int64_t columns = KnownDim(node.inputs[3], trans_b ? 0 : 1);
  const std::optional<Operand> qa = ConstantOperand(node, 1, 2);
  const std::optional<Operand> qb = ConstantOperand(node, 4, 5, columns);
  if (!qa || !qb) return kParametersNotConstant;
  const bool quantized = node.input(7) != nullptr;
  std::optional<Output> to;
  if (quantized) to = ConstantOutput(node, 7, 8);
  if (quantized && !to) return kParametersNotConstant;
  int64_t inner = KnownDim(node.inputs[3], trans_b ? 1 : 0);
  if (inner < 0) inner = KnownDim(node.inputs[0], trans_a ? 0 : 1);
  Product product{node.inputs[0], node.inputs[3], *qa, *qb, inner};
  if (!KnowsTerms(writer, product)) return kOpenSum;
  const float alpha = node.attributes.Float("alpha", 1);
  const float scale_a = std::fabs(alpha) * qa->scales[0];
  std::vector<double> multipliers;
  for (const float scale : qb->scales) {
    multipliers.push_back(
        ProductMultiplier(writer.form().requantize, scale_a, scale, to ? to->scale : 1));
  }
  if (trans_a) product.a = Transposed(writer, product.a, "a_transposed");
  if (trans_b) product.b = Transposed(writer, product.b, "b_transposed");
  Value* sums = writer.four_terms() ? FourTerms(writer, product) : SubtractFirst(writer, product);
  if (Value* c = node.input(6)) {
    sums = writer.Add("Add", {sums, c}, "plus_bias", DType::kInt32);
  }
  if (alpha < 0) {
    // Multipliers have no sign, so the sign of alpha goes to the sums.
    sums = writer.Add("Sub", {writer.Scalar("none", 0), sums}, "negated", DType::kInt32);
  }
  const Shape row = RowOf(multipliers.size());
  if (to) {
    writer.Finish(sums, multipliers, row, *to);
    return {};
  }
  AttributeMap cast;
  cast.Set("to", static_cast<int64_t>(DType::kFloat32));
  Value* reals = writer.Add("Cast", {sums}, "reals", DType::kFloat32, std::move(cast));
  const std::vector<float> scales(multipliers.begin(), multipliers.end());
  writer.FinishWith("Mul", {reals, writer.Constant("scale", Tensor::FromVector(scales, row))});
  return {};
}

}  // namespace requant::integers
