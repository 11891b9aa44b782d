#include "passes/match/clip.h"

#include <cmath>
#include <limits>

#include "passes/rewrite.h"

namespace requant {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

/// Clip's defaults, the ends of float32 (onnx/docs/Operators.md), are no bounds at all.
double OpenLow(double low) {
  return low <= -double{std::numeric_limits<float>::max()} ? -kInf : low;
}
double OpenHigh(double high) {
  return high >= double{std::numeric_limits<float>::max()} ? kInf : high;
}

std::optional<ClipRange> MatchClipOp(const Node& node) {
  ClipRange range{node.input(0), -kInf, kInf};
  // Bounds are attributes before opset 11 and inputs from then on; some files mix them up.
  if (node.attributes.Has("min")) range.low = double{node.attributes.Float("min", 0)};
  if (node.attributes.Has("max")) range.high = double{node.attributes.Float("max", 0)};
  for (const size_t slot : {size_t{1}, size_t{2}}) {
    if (node.input(slot) == nullptr) continue;
    const std::optional<double> bound = ScalarOf(node.input(slot));
    if (!bound) return {};
    (slot == 1 ? range.low : range.high) = *bound;
  }
  return range;
}

/// Matches Max(x, c) and Min(x, c), with operands in either order.
std::optional<ClipRange> MatchMinMax(const Node& node) {
  if (node.inputs.size() != 2) return {};
  for (const size_t slot : {size_t{0}, size_t{1}}) {
    const std::optional<double> bound = ScalarOperand(node.input(1 - slot), node.input(slot));
    if (!bound || node.input(slot)->is_constant()) continue;
    if (node.Is(Op::kMax)) return ClipRange{node.input(slot), *bound, kInf};
    return ClipRange{node.input(slot), -kInf, *bound};
  }
  return {};
}

}  // namespace

std::optional<ClipRange> MatchClip(const Graph&, const Node& node) {
  std::optional<ClipRange> range;
  if (node.Is(Op::kRelu)) {
    range = ClipRange{node.input(0), 0, kInf};
  } else if (node.Is(Op::kClip)) {
    range = MatchClipOp(node);
  } else if (node.Is(Op::kMax) || node.Is(Op::kMin)) {
    range = MatchMinMax(node);
  }
  if (!range || !IsFloat32(range->x) || std::isnan(range->low) || std::isnan(range->high)) {
    return {};
  }
  range->low = OpenLow(range->low);
  range->high = OpenHigh(range->high);
  return range;
}

void MakeClip(Graph& graph, Node* node, const ClipRange& range) {
  const bool relu = range.low == 0 && range.high == kInf;
  graph.SetInput(node, 0, range.x);
  TruncateInputs(graph, node, 1);
  node->attributes = {};
  node->Retype(relu ? Op::kRelu : Op::kClip);
  if (relu) return;
  const bool has_low = range.low != -kInf;
  const bool has_high = range.high != kInf;
  if (graph.opset() < 11) {
    if (has_low) node->attributes.Set("min", static_cast<float>(range.low));
    if (has_high) node->attributes.Set("max", static_cast<float>(range.high));
    return;
  }
  const auto bound = [&graph, node](const char* suffix, double value) {
    return graph.AddConstant(node->name + suffix, Tensor::Scalar(static_cast<float>(value)));
  };
  if (has_low) graph.SetInput(node, 1, bound("_min", range.low));
  if (has_high) graph.SetInput(node, 2, bound("_max", range.high));
}

}  // namespace requant
