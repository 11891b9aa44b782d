// FoldScaleAxis, and its halves FoldScaleAxisBackward and FoldScaleAxisForward
// (TVM src/relay/transforms/fold_scale_axis.cc)
//
// Backward (the constant behind the layer)
//   Before: y = Conv(x, W, b) * c      or  / c,  + c,  - c
//   After:  y = Conv(x, W', b')
//   Formula: W'[o] = W[o] * c[o], b'[o] = b[o] * c[o];  b'[o] = b[o] + c[o]
//
// Forward (the constant in front of it)
//   Before: y = Conv(x * c, W, b)
//   After:  y = Conv(x, W', b') with W'[o, i] = W[o, i] * c[i]
//   (padding is not disturbed: 0 * c = 0; an addition in front would be)
//
// Both also through operators f with f(c * x) = c * f(x):
//   Before: Relu(Conv(x)) * c, Conv(MaxPool(x * c))      After: Relu(Conv(x)), Conv(MaxPool(x))
//   Relu, LeakyRelu, MaxPool for c > 0; AveragePool, GlobalAveragePool, Identity for any c.
//
// Conditions: Conv, ConvTranspose, Gemm or MatMul with constant float32 weights; c constant, one
//   number for each channel or for all; nobody else reads the values between; no division by zero.
//   A MatMul takes an addition only as a Gemm, so only for 2-D inputs.
#include <algorithm>
#include <cmath>

#include "passes/fold/linear_fold.h"
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
  const bool commutes = node.Is(Op::kMul) || node.Is(Op::kAdd);
  const bool known = commutes || node.Is(Op::kDiv) || node.Is(Op::kSub);
  if (!known) return {};
  if (b->is_constant() && !a->is_constant()) return {a, &b->constant};
  if (commutes && a->is_constant() && !b->is_constant()) return {b, &a->constant};
  return {};
}

/// Rank and channel axis of the values before and behind a layer.
struct Layout {
  int64_t rank;
  int64_t axis;
};

std::optional<Layout> LayoutOf(const Node& layer, const Value* value) {
  if (layer.op_type.starts_with("Conv")) return Layout{layer.constant(1)->rank(), 1};
  if (layer.Is(Op::kGemm)) return Layout{2, 1};
  const int64_t rank = RankOf(value);
  if (rank < 1) return {};
  return Layout{rank, rank - 1};
}

struct ChannelMap {
  std::vector<double> scale;
  std::vector<double> shift;
};

/// The operation of `node` with `constant` as x -> scale * x + shift; nullopt if it has no such
/// form.
std::optional<ChannelMap> MapOf(const Node& node, const Tensor& constant, const Layout& layout,
                                int64_t channels) {
  if (constant.dtype() != DType::kFloat32) return {};
  const auto values = PerChannel(constant, layout.rank, layout.axis, channels);
  if (!values) return {};
  ChannelMap map{std::vector<double>(values->size(), 1.0), std::vector<double>(values->size(), 0)};
  for (size_t c = 0; c < values->size(); ++c) {
    const double value = (*values)[c];
    if (node.Is(Op::kMul)) map.scale[c] = value;
    if (node.Is(Op::kDiv)) map.scale[c] = 1 / value;
    if (node.Is(Op::kAdd)) map.shift[c] = value;
    if (node.Is(Op::kSub)) map.shift[c] = -value;
    if (!std::isfinite(map.scale[c]) || !std::isfinite(map.shift[c])) return {};
  }
  return map;
}

enum class Through : uint8_t { kNothing, kPositive, kAny };

/// Returns which scales may move from one side of the operator to the other.
Through Homogeneity(const Node& node) {
  if (!node.domain.empty() || node.outputs.size() != 1) return Through::kNothing;
  if (node.op_type == "Relu" || node.op_type == "LeakyRelu" || node.op_type == "MaxPool") {
    return Through::kPositive;
  }
  const bool linear = node.op_type == "AveragePool" || node.op_type == "GlobalAveragePool" ||
                      node.op_type == "Identity";
  return linear ? Through::kAny : Through::kNothing;
}

/// Pools need the channels where a convolution has them, on the second axis.
bool FitsPools(bool pools, const Node& layer) {
  return !pools || layer.op_type.starts_with("Conv");
}

/// Whether the map may move across the operator between the constant and the layer.
bool MayPass(const ChannelMap& map, Through through) {
  if (through == Through::kAny) return true;
  const bool shifts =
      std::any_of(map.shift.begin(), map.shift.end(), [](double s) { return s != 0; });
  const bool positive =
      std::all_of(map.scale.begin(), map.scale.end(), [](double s) { return s > 0; });
  return !shifts && positive;
}

bool FoldBackward(Graph& graph, Node* node) {
  const auto [x, constant] = SplitOperands(*node);
  if (x == nullptr || node->outputs[0] == nullptr) return false;
  const bool scales = node->Is(Op::kMul) || node->Is(Op::kDiv);
  Through through = Through::kAny;
  bool pools = false;
  Value* value = x;
  const Node* reader = node;
  Node* layer = nullptr;
  for (;; value = layer->input(0)) {
    layer = value ? value->producer : nullptr;
    if (layer == nullptr || graph.SoleConsumer(value) != reader) return false;
    const Through one = scales ? Homogeneity(*layer) : Through::kNothing;
    if (one == Through::kNothing) break;
    through = std::min(through, one);
    pools = pools || layer->op_type.ends_with("Pool");
    reader = layer;
  }
  const int64_t channels = FoldableChannels(*layer);
  if (channels == 0 || !FitsPools(pools, *layer)) return false;
  const std::optional<Layout> layout = LayoutOf(*layer, value);
  if (!layout || (value != x && RankOf(x) != layout->rank)) return false;
  const auto map = MapOf(*node, *constant, *layout, channels);
  return map && MayPass(*map, through) && CanReplace(graph, node->outputs[0], x) &&
         FoldIntoLinear(graph, layer, map->scale, map->shift) && Bypass(graph, node, x);
}

/// Whether every output of the layer sees real inputs only.
bool IsUnpadded(const Node& layer) {
  if (layer.Is(Op::kConvTranspose)) return false;
  const std::string auto_pad = layer.attributes.String("auto_pad", "NOTSET");
  const std::vector<int64_t> pads = layer.attributes.Ints("pads");
  return (auto_pad == "NOTSET" || auto_pad == "VALID") &&
         std::all_of(pads.begin(), pads.end(), [](int64_t pad) { return pad == 0; });
}

bool FoldForward(Graph& graph, Node* node) {
  const auto [x, constant] = SplitOperands(*node);
  if (x == nullptr || node->outputs[0] == nullptr) return false;
  Value* product = node->outputs[0];
  const bool scales = node->Is(Op::kMul) || node->Is(Op::kDiv);
  Through through = Through::kAny;
  bool pools = false;
  Value* value = product;
  Node* layer = nullptr;
  for (;; value = layer->output()) {
    layer = value ? graph.SoleConsumer(value) : nullptr;
    if (layer == nullptr || layer->input(0) != value) return false;
    const Through one = scales ? Homogeneity(*layer) : Through::kNothing;
    if (one == Through::kNothing) break;
    through = std::min(through, one);
    pools = pools || layer->op_type.ends_with("Pool");
  }
  const int64_t channels = FoldableInputChannels(*layer);
  if (channels == 0 || !FitsPools(pools, *layer)) return false;
  const std::optional<Layout> layout = LayoutOf(*layer, value);
  if (!layout || (value != product && RankOf(product) != layout->rank)) return false;
  const auto map = MapOf(*node, *constant, *layout, channels);
  if (!map || !MayPass(*map, through) || (!scales && !IsUnpadded(*layer))) return false;
  // x must have had its channels before it was broadcast.
  if (!SameShape(x, product) || !CanReplace(graph, product, x)) return false;
  return FoldIntoLinearInput(graph, layer, map->scale, map->shift) && Bypass(graph, node, x);
}

bool FoldEither(Graph& graph, Node* node) {
  return FoldBackward(graph, node) || FoldForward(graph, node);
}

}  // namespace

bool FoldScaleAxisBackward(Graph& graph, PassContext&) { return RewriteNodes(graph, FoldBackward); }

bool FoldScaleAxisForward(Graph& graph, PassContext&) { return RewriteNodes(graph, FoldForward); }

bool FoldScaleAxis(Graph& graph, PassContext&) { return RewriteNodes(graph, FoldEither); }

}  // namespace requant
