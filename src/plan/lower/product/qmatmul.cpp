// Lowers QLinearMatMul and com.microsoft::QGemm with constant right-hand sides.
#include "plan/lower/convolution/qconv.h"
#include "plan/lower/rows.h"

namespace requant {
namespace {

bool AddQMatrixStep(PlanBuilder& builder, const Node& node, const Tensor& b, bool transposed,
                    int64_t rows, const QuantConstants& a, const QuantConstants& w,
                    const QuantConstants& y, const Tensor* bias) {
  const int64_t k = b.dim(transposed ? 1 : 0);
  const int64_t n = b.dim(transposed ? 0 : 1);
  if (rows == 0 || k == 0 || n == 0) return false;
  if (a.scales.size() != 1 || y.scales.size() != 1) return false;
  const ConvGeometry geometry = MatMulGeometry(rows, k, n);
  if (!FitsInt32(geometry)) return false;
  const auto per_column = Expand(w, geometry.out_c);
  if (!per_column || (bias && bias->count() != n)) return false;
  QProduct product;
  product.weight_zero_points = NonZero(per_column->zero_points);
  ConvWeightsLayout layout;
  layout.out_c = static_cast<int32_t>(n);
  layout.in_c_per_group = static_cast<int32_t>(k);
  layout.stride_o = transposed ? k : 1;
  layout.stride_i = transposed ? 1 : n;
  product.weights = ByteWeightsOf(builder, layout, b, product.zero_points());
  product.weights.bias = bias ? bias->data<int32_t>() : nullptr;
  product.input_scale = a.scales[0];
  product.input_zero_point = a.zero_points[0];
  product.weight_scales = per_column->scales;
  product.output_scale = y.scales[0];
  product.output_zero_point = y.zero_points[0];
  AddConvQ8Step(builder, node, geometry, std::move(product), Layout::kPlain,
                builder.In(node.inputs[0]));
  return true;
}

}  // namespace

bool LowerQLinearMatMul(PlanBuilder& builder, const Node& node) {
  const Tensor* b = node.constant(3);
  const auto a_quant = ReadQuant(node, 1, 2);
  const auto b_quant = ReadWeightQuant(node);
  const auto y_quant = ReadQuant(node, 6, 7);
  const Shape a = node.inputs[0]->type.StaticShape();
  if (b == nullptr || !IsByte(b->dtype()) || b->rank() != 2 || !a_quant || !b_quant || !y_quant ||
      a.empty() || b->dim(0) == 0) {
    return false;
  }
  return AddQMatrixStep(builder, node, *b, false, NumElements(a) / b->dim(0), *a_quant, *b_quant,
                        *y_quant, nullptr);
}

bool LowerQGemm(PlanBuilder& builder, const Node& node) {
  // Inputs: A, a_scale, a_zero_point, B, b_scale, b_zero_point, C, y_scale, y_zero_point.
  const Tensor* b = node.constant(3);
  const Tensor* c = node.constant(6);
  const auto a_quant = ReadQuant(node, 1, 2);
  const auto b_quant = ReadWeightQuant(node);
  const auto y_quant = ReadQuant(node, 7, 8);
  if (b == nullptr || !IsByte(b->dtype()) || (node.input(6) && c == nullptr) || !a_quant ||
      !b_quant || !y_quant || node.attributes.Int("transA", 0) != 0 ||
      node.attributes.Float("alpha", 1) != 1) {
    return false;
  }
  return AddQMatrixStep(builder, node, *b, node.attributes.Int("transB", 0) != 0,
                        node.inputs[0]->type.StaticShape()[0], *a_quant, *b_quant, *y_quant, c);
}

}  // namespace requant
