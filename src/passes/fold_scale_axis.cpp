// FoldScaleAxis
//
// Forward (the constant behind the layer)
//   Before: y = Conv(x, W, b) * c      or  / c,  + c,  - c
//   After:  y = Conv(x, W', b')
//   Formula: W'[o] = W[o] * c[o], b'[o] = b[o] * c[o];  b'[o] = b[o] + c[o]
//
// Backward (the constant in front of it)
//   Before: y = Conv(x * c, W, b)
//   After:  y = Conv(x, W', b) with W'[o, i] = W[o, i] * c[i]
//   (padding is not disturbed: 0 * c = 0; an addition in front would be)
//
// Conditions: Conv, Gemm or MatMul with constant float32 weights; c constant, one number for each
//   channel or for all; nobody else reads the value between; no division by zero. A MatMul takes an
//   addition only as a Gemm, so only for 2-D inputs.
#include <algorithm>
#include <cmath>

#include "passes/linear_fold.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace requant {
namespace {

struct Operands {
  Value* x = nullptr;
  const Tensor* constant = nullptr;
};

/// The variable and the constant operand of Mul, Div, Add or Sub.
Operands SplitOperands(const Node& node) {
  Value* a = node.input(0);
  Value* b = node.input(1);
  if (a == nullptr || b == nullptr) return {};
  const bool commutes = node.Is("Mul") || node.Is("Add");
  const bool known = commutes || node.Is("Div") || node.Is("Sub");
  if (!known) return {};
  if (b->is_constant() && !a->is_constant()) return {a, &b->constant};
  if (commutes && a->is_constant() && !b->is_constant()) return {b, &a->constant};
  return {};
}

/// Rank and channel axis of the values around a layer.
struct Layout {
  int64_t rank;
  int64_t axis;
};

std::optional<Layout> LayoutOf(const Node& layer, const Value* value) {
  if (layer.Is("Conv")) return Layout{layer.constant(1)->rank(), 1};
  if (layer.Is("Gemm")) return Layout{2, 1};
  const int64_t rank = RankOf(value);
  if (rank < 1) return {};
  return Layout{rank, rank - 1};
}

bool FoldForward(Graph& graph, Node* node) {
  const auto [x, constant] = SplitOperands(*node);
  if (x == nullptr || constant->dtype() != DType::kFloat32) return false;
  Node* layer = x->producer;
  if (layer == nullptr || graph.SoleConsumer(x) != node) return false;
  const int64_t channels = FoldableChannels(*layer);
  if (channels == 0) return false;
  const std::optional<Layout> layout = LayoutOf(*layer, x);
  if (!layout) return false;
  auto values = PerChannel(*constant, layout->rank, layout->axis, channels);
  if (!values) return false;
  std::vector<double> scale(values->size(), 1.0);
  std::vector<double> shift(values->size(), 0.0);
  for (size_t c = 0; c < values->size(); ++c) {
    const double value = (*values)[c];
    if (node->Is("Mul")) scale[c] = value;
    if (node->Is("Div")) scale[c] = 1 / value;
    if (node->Is("Add")) shift[c] = value;
    if (node->Is("Sub")) shift[c] = -value;
    if (!std::isfinite(scale[c]) || !std::isfinite(shift[c])) return false;
  }
  return FoldIntoLinear(graph, layer, scale, shift) && Bypass(graph, node, x);
}

bool FoldBackward(Graph& graph, Node* node) {
  if (!node->Is("Mul") || node->outputs[0] == nullptr) return false;
  const auto [x, constant] = SplitOperands(*node);
  if (x == nullptr || constant->dtype() != DType::kFloat32) return false;
  Value* product = node->outputs[0];
  Node* layer = graph.SoleConsumer(product);
  if (layer == nullptr || layer->input(0) != product) return false;
  const int64_t channels = FoldableInputChannels(*layer);
  if (channels == 0) return false;
  const std::optional<Layout> layout = LayoutOf(*layer, product);
  if (!layout) return false;
  const auto values = PerChannel(*constant, layout->rank, layout->axis, channels);
  if (!values || !std::all_of(values->begin(), values->end(),
                              [](double value) { return std::isfinite(value); })) {
    return false;
  }
  // Broadcasting must not have given x its channels.
  if (!SameShape(x, product)) return false;
  return FoldIntoLinearInput(graph, layer, *values) && Bypass(graph, node, x);
}

}  // namespace

bool FoldScaleAxis(Graph& graph, PassContext&) {
  return RewriteNodes(
      graph, [](Graph& g, Node* node) { return FoldForward(g, node) || FoldBackward(g, node); });
}

}  // namespace requant
