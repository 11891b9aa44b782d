#include "passes/match/quantize_pairs.h"

#include <algorithm>
#include <string_view>

#include "ops/pooling/pool_windows.h"
#include "passes/rewrite.h"

namespace requant {

bool MovesValues(const Graph& graph, const Node& node) {
  constexpr std::string_view kMoves[] = {"Reshape", "Flatten",      "Squeeze",      "Unsqueeze",
                                         "Slice",   "Transpose",    "Expand",       "Tile",
                                         "Gather",  "DepthToSpace", "SpaceToDepth", "Identity"};
  if (!node.domain.empty() || node.outputs.size() != 1 || node.outputs[0] == nullptr) return false;
  if (node.op_type == "MaxPool") {
    // A window of only padding gives a number that the input's grid lacks.
    return graph.opset() >= 12 && WindowsHoldData(node.attributes, node.input(0)->type.shape);
  }
  return std::find(std::begin(kMoves), std::end(kMoves), node.op_type) != std::end(kMoves);
}

bool IsScalarPair(const Node& node) {
  const bool quantize = node.Is(Op::kQuantizeLinear);
  if (!quantize && !node.Is(Op::kDequantizeLinear)) return false;
  if (node.outputs.size() != 1 || node.output() == nullptr || node.input(0) == nullptr)
    return false;
  const Value* integers = quantize ? node.output() : node.input(0);
  const Value* real = quantize ? node.input(0) : node.output();
  const DType dtype = integers->type.dtype;
  const std::optional<double> scale = ScalarOf(node.input(1));
  return scale && *scale > 1e-30 && *scale < 1e30 && IsFloat32(node.input(1)) && IsFloat32(real) &&
         (dtype == DType::kInt8 || dtype == DType::kUint8) &&
         (node.input(2) == nullptr ? dtype == DType::kUint8 : ScalarOf(node.input(2)).has_value());
}

namespace {

/// Whether both are pairs of scalar parameters, and the same ones.
bool SameParameters(const Node& a, const Node& b) {
  return IsScalarPair(a) && IsScalarPair(b) && ScalarOf(a.input(1)) == ScalarOf(b.input(1)) &&
         ScalarOf(a.input(2)).value_or(0) == ScalarOf(b.input(2)).value_or(0);
}

DType IntegersOf(const Node& node) {
  return (node.Is(Op::kQuantizeLinear) ? node.outputs : node.inputs)[0]->type.dtype;
}

/// The DequantizeLinear whose values `value` has, in any order.
const Node* SourceOf(const Graph& graph, const Value* value) {
  constexpr int kMost = 8;  // most operators in between
  for (int i = 0; i <= kMost && value && value->producer; ++i) {
    const Node* node = value->producer;
    if (node->Is(Op::kDequantizeLinear)) return node;
    if (!MovesValues(graph, *node)) break;
    value = node->input(0);
  }
  return nullptr;
}

}  // namespace

bool DropRequantization(Graph& graph, Node* node) {
  if (node->Is(Op::kQuantizeLinear)) {
    const Node* inner = node->input(0)->producer;
    return inner && inner->Is(Op::kDequantizeLinear) && SameParameters(*node, *inner) &&
           IntegersOf(*node) == IntegersOf(*inner) && Bypass(graph, node, inner->input(0));
  }
  if (!node->Is(Op::kDequantizeLinear) || !IsScalarPair(*node)) return false;
  const Node* quantize = node->input(0)->producer;
  if (quantize == nullptr || !quantize->Is(Op::kQuantizeLinear) ||
      !SameParameters(*node, *quantize)) {
    return false;
  }
  Value* real = quantize->input(0);
  const Node* source = SourceOf(graph, real);
  return source && source->output() != real && SameParameters(*quantize, *source) &&
         IntegersOf(*quantize) == IntegersOf(*source) && Bypass(graph, node, real);
}

}  // namespace requant
