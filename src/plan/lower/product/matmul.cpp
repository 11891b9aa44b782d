// Lowers Gemm and MatMul with constant right-hand sides: matrix products as one-pixel convolutions.
#include "plan/lower/rows.h"

namespace requant {
namespace {

/// The [K, N] matrix, or its transpose, as convolution weights [N, K, 1, 1].
ConvWeightsLayout MatrixLayout(int64_t k, int64_t n, bool transposed) {
  ConvWeightsLayout layout;
  layout.out_c = static_cast<int32_t>(n);
  layout.in_c_per_group = static_cast<int32_t>(k);
  layout.stride_o = transposed ? k : 1;
  layout.stride_i = transposed ? 1 : n;
  return layout;
}

}  // namespace

bool LowerGemm(PlanBuilder& builder, const Node& node) {
  const Tensor* b = node.constant(1);
  const Tensor* c = node.constant(2);
  const AttributeMap& attributes = node.attributes;
  if (b == nullptr || b->dtype() != DType::kFloat32 || (node.input(2) && !c) ||
      attributes.Int("transA", 0) != 0 || attributes.Float("alpha", 1) != 1 ||
      attributes.Float("beta", 1) != 1) {
    return false;
  }
  const bool transposed = attributes.Int("transB", 0) != 0;
  const Shape out = node.outputs[0]->type.StaticShape();
  const int64_t k = b->dim(transposed ? 1 : 0);
  if (NumElements(out) == 0 || k == 0) return false;
  // Only one bias per column is lowered; the reference computes other forms.
  if (c && !(c->count() == out[1] && (c->rank() < 2 || c->dim(0) == 1))) return false;
  const ConvGeometry geometry = MatMulGeometry(out[0], k, out[1]);
  if (!FitsInt32(geometry)) return false;
  const FloatWeights weights =
      WeightsOf(MatrixLayout(k, out[1], transposed), *b, c ? c->data<float>() : nullptr);
  AddConvF32Step(builder, node, geometry, weights, Layout::kPlain, builder.In(node.inputs[0]));
  return true;
}

bool LowerMatMul(PlanBuilder& builder, const Node& node) {
  const Tensor* b = node.constant(1);
  const Shape a = node.inputs[0]->type.StaticShape();
  if (b == nullptr || b->dtype() != DType::kFloat32 || b->rank() != 2 || a.empty()) return false;
  const int64_t k = b->dim(0);
  const int64_t count = NumElements(a);
  if (count == 0 || b->count() == 0) return false;
  const ConvGeometry geometry = MatMulGeometry(count / k, k, b->dim(1));
  if (!FitsInt32(geometry)) return false;
  const FloatWeights weights = WeightsOf(MatrixLayout(k, b->dim(1), false), *b, nullptr);
  AddConvF32Step(builder, node, geometry, weights, Layout::kPlain, builder.In(node.inputs[0]));
  return true;
}

}  // namespace requant
