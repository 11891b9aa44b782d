#include "api/requant.h"

#include <algorithm>

#include "api/late_functions.h"

// Legalize
// Before: Conv and other operators between DequantizeLinear and QuantizeLinear
// After:  the integer operators of this engine: QLinearConv, QLinearMatMul, QGemm, Lut and so on
// Conditions: all sides of an operator have 8 bits, and scales are constant. An operator without an
//   integer form stays float between its pairs. In a graph that has integer operators already, only
//   ConvTranspose becomes one, which our own QOperator files spell with pairs (JoinPairs,
//   quant/file/spell_pairs.h). FromQdq (quant/file/from_qdq.cpp) reads the pairs, LowerToInteger
//   (quant/lower) makes the operators.
// Formula: q_y = z_y + requantize(sum of (q_x - z_x) * (q_w - z_w) + b, s_x * s_w / s_y). The float
//   operator between its pairs gives the same but for the rounding of float sums: results differ by
//   at most a step where a sum falls on the other side of a half.
namespace requant {
namespace {

constexpr const char* kIntegerOps[] = {"QLinearConv", "QLinearMatMul", "ConvInteger",
                                       "MatMulInteger", "DynamicQuantizeLinear"};

bool HasQdq(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [](const auto& node) { return node->op_type == "DequantizeLinear"; });
}

bool HasIntegerOps(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const auto& node) {
    const auto is = [&node](const char* name) { return node->op_type == name; };
    return node->Is("Lut", kRequantDomain) || node->op_type.starts_with("QLinear") ||
           node->op_type == "QGemm" ||
           std::any_of(std::begin(kIntegerOps), std::end(kIntegerOps), is);
  });
}

}  // namespace

bool Legalize(Graph& graph, PassContext&) {
  if (!HasQdq(graph)) return false;
  if (HasIntegerOps(graph)) return OperatorsLoaded() && kJoinPairs(graph);
  std::optional<QuantizedModel> quantized = FromQdq(graph, false);
  if (!quantized) return false;
  graph = Graph();  // frees its memory before the integer graph takes more
  graph = LowerToInteger(*quantized);
  return true;
}

std::vector<const OpDef*> OperatorsOf(const Graph& graph) {
  std::vector<const OpDef*> operators;
  const auto add = [&operators](const OpDef* op) {
    const bool known = std::find(operators.begin(), operators.end(), op) != operators.end();
    if (op != nullptr && !known) operators.push_back(op);
  };
  for (const auto& node : graph.nodes()) add(FindOp(node->op_type, node->domain));
  return operators;
}

RaiseFunction OpsetRaising(const Graph& graph) {
  return graph.opset() < 13 && HasQdq(graph) ? kRaiseOpset : nullptr;
}

bool IsQuantized(const Graph& graph) { return HasQdq(graph) || HasIntegerOps(graph); }

Graph OptimizedFloat(const Graph& graph) {
  Graph copy = graph.Clone();
  RunPasses(copy, {});
  return copy;
}

}  // namespace requant
