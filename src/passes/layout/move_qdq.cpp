// MoveQdq
// Before: Transpose(DequantizeLinear(q, s, z)); QuantizeLinear(Reshape(x), s, z)
// After:  DequantizeLinear(Transpose(q), s, z); Reshape(QuantizeLinear(x, s, z)); and so for every
//   operator that only moves or selects values: 8-bit numbers move instead of floats, and pairs
//   meet and cancel (SimplifyExpr: QuantizeLinear of DequantizeLinear).
// Conditions: 8-bit q, one constant s and z; nobody else reads the value between, and it is no
//   graph output. MaxPool only without indices and from opset 12 on, where ONNX has it for 8 bits;
//   rounding and saturation keep the order of numbers, so the largest stays the largest.
// Formula: s * (m(q) - z) = m(s * (q - z)) where m moves, selects or takes the largest of numbers.
//   The rewrite is exact. The pass is optional, since sessions need the Q/DQ pairs around operators
//   to make integer operators.
#include <algorithm>
#include <string_view>

#include "passes/match/quantize_pairs.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace requant {
namespace {

/// Makes the scale and zero point inputs of the node behind.
bool SinkDequantize(Graph& graph, Node* node) {
  Value* real = node->input(0);
  Node* dequantize = real ? real->producer : nullptr;
  if (!MovesValues(graph, *node) || dequantize == nullptr || !IsScalarPair(*dequantize) ||
      !dequantize->Is(Op::kDequantizeLinear) || graph.SoleConsumer(real) != node) {
    return false;
  }
  Value* integers = dequantize->input(0);
  graph.SetInput(node, 0, integers);
  ValueType type = node->outputs[0]->type;
  type.dtype = integers->type.dtype;
  const std::vector<Value*> parameters(dequantize->inputs.begin() + 1, dequantize->inputs.end());
  AppendOp(graph, node, "DequantizeLinear", parameters, std::move(type));
  return true;
}

bool HoistQuantize(Graph& graph, Node* quantize) {
  if (!quantize->Is(Op::kQuantizeLinear) || !IsScalarPair(*quantize)) return false;
  Value* real = quantize->input(0);
  Node* node = real->producer;
  if (node == nullptr || !MovesValues(graph, *node) || graph.SoleConsumer(real) != quantize) {
    return false;
  }
  Value* x = node->input(0);
  if (x == nullptr || !IsFloat32(x) || x->is_constant()) return false;
  Value* output = quantize->outputs[0];
  ValueType type = x->type;
  type.dtype = output->type.dtype;
  std::vector<Value*> inputs = quantize->inputs;
  inputs[0] = x;
  Value* integers =
      AddNear(graph, quantize, "QuantizeLinear", std::move(inputs), type, quantize->attributes);
  graph.SetInput(node, 0, integers);
  real->type.dtype = output->type.dtype;
  graph.TypeChanged(real);
  return Bypass(graph, quantize, real);
}

}  // namespace

bool MoveQdq(Graph& graph, PassContext&) {
  return RewriteNodes(graph, [](Graph& g, Node* node) {
    return SinkDequantize(g, node) || HoistQuantize(g, node);
  });
}

}  // namespace requant
