#include "quant/grid/weight_matrix.h"

#include <algorithm>

#include "base/error.h"
#include "base/str_cat.h"

namespace requant {
namespace {

constexpr int64_t kMostSpatial = 3;

bool IsFloatConstant(const Value* value) {
  return value && value->is_constant() && value->constant.dtype() == DType::kFloat32;
}

/// Whether the bias has one number for each row, or one for all.
bool IsBiasShape(const Tensor& bias, int64_t rows) {
  if (bias.count() == 1) return bias.rank() <= 2;
  return bias.count() == rows && bias.dim(bias.rank() - 1) == rows;
}

const char* WhyNoConvolution(const Node& node, const Tensor& weights) {
  if (weights.rank() < 3) return "its weights have no spatial dimension";
  if (weights.rank() > 2 + kMostSpatial) return "it has more than three spatial dimensions";
  const int64_t groups = node.attributes.Int("group", 1);
  if (groups < 1 || weights.dim(0) % groups != 0) return "its groups do not divide its channels";
  return nullptr;
}

const char* WhyNoProduct(const Node& node, const Tensor& weights) {
  if (weights.rank() != 2) return "its weights are no matrix";
  if (node.attributes.Int("transA", 0) != 0) return "its input is transposed";
  if (node.attributes.Float("alpha", 1) != 1 || node.attributes.Float("beta", 1) != 1) {
    return "alpha or beta is not 1";
  }
  return nullptr;
}

WeightMatrix ViewConvolution(const Node& node, const Tensor& weights) {
  WeightMatrix view;
  const bool transposed = node.Is(Op::kConvTranspose);
  view.groups = node.attributes.Int("group", 1);
  view.rows = transposed ? weights.dim(1) * view.groups : weights.dim(0);
  view.scales = transposed && weights.dim(1) > 1 ? weights.dim(1) : view.rows;
  view.k = weights.count() / view.rows;
  view.group_stride = weights.count() / view.groups;
  const int64_t channels = transposed ? weights.dim(0) / view.groups : weights.dim(1);
  view.taps = view.k / channels;
  view.row_stride = transposed ? view.taps : view.k;
  view.k_stride = transposed ? view.taps * weights.dim(1) : view.taps;
  return view;
}

WeightMatrix ViewProduct(const Node& node, const Tensor& weights) {
  WeightMatrix view;
  const bool transposed = node.attributes.Int("transB", 0) != 0;
  view.rows = view.scales = weights.dim(transposed ? 0 : 1);
  view.k = weights.dim(transposed ? 1 : 0);
  view.row_stride = transposed ? view.k : 1;
  view.k_stride = transposed ? 1 : view.rows;
  return view;
}

/// The matrix of weights whose shape is valid.
WeightMatrix View(const Node& node, QuantRule rule) {
  const Tensor& weights = node.inputs[1]->constant;
  return rule == QuantRule::kConv ? ViewConvolution(node, weights) : ViewProduct(node, weights);
}

}  // namespace

const char* WhyNoWeightMatrix(const Node& node, QuantRule rule) {
  if (rule != QuantRule::kConv && rule != QuantRule::kMatMul) return "it has no weights";
  if (!IsFloatConstant(node.input(1))) return "its weights are not constant float32";
  const Tensor& weights = node.inputs[1]->constant;
  if (weights.count() == 0) return "its weights are empty";
  const char* why =
      rule == QuantRule::kConv ? WhyNoConvolution(node, weights) : WhyNoProduct(node, weights);
  if (why) return why;
  const Value* bias = node.input(2);
  if (bias == nullptr) return nullptr;
  if (!IsFloatConstant(bias)) return "its bias is not constant float32";
  if (!IsBiasShape(bias->constant, View(node, rule).rows)) {
    return "its bias is not one number per channel";
  }
  return nullptr;
}

WeightMatrix ViewWeights(const Node& node, QuantRule rule) {
  if (const char* why = WhyNoWeightMatrix(node, rule)) {
    Fail(ErrorCode::kInternal, StrCat("the layer '", node.name, "' is no weight matrix: ", why),
         {.node = node.name});
  }
  return View(node, rule);
}

}  // namespace requant
