#include <algorithm>
#include <optional>

#include "api/late_functions.h"
#include "api/passes.h"
#include "api/prepare.h"
#include "quant/lower/lower.h"
#include "quant/quantizer.h"

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

bool HasIntegerOps(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const auto& node) {
    const OpDef* op = FindOp(*node);
    return op && op->on_integers;
  });
}

}  // namespace

bool HasQdq(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const auto& node) {
    return node->Is(Op::kDequantizeLinear) || node->Is("DequantizeLinear", kMicrosoftDomain);
  });
}

bool Legalize(Graph& graph, PassContext&) {
  if (!HasQdq(graph)) return false;
  if (HasIntegerOps(graph)) return kJoinPairs.loaded() && kJoinPairs(graph);
  std::optional<QuantizedModel> quantized = FromQdq(graph, false);
  if (!quantized) return false;
  graph = Graph();  // frees its memory before the integer graph takes more
  graph = LowerToInteger(*quantized).Release();
  return true;
}

bool IsQuantized(const Graph& graph) { return HasQdq(graph) || HasIntegerOps(graph); }

}  // namespace requant
