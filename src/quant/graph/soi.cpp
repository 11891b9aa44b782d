#include "quant/graph/soi.h"

#include "ops/op.h"

namespace requant {
namespace {

/// Whether the operator makes data from other types: rows of a table (embeddings), samples of up to
/// 16 bits (images, sound), floats of 16 bits, or an input of 64. Other integers count or number
/// something, and so do the floats they are cast to (positions, masks).
bool MakesData(const Node& node) {
  if (node.Is(Op::kDequantizeLinear)) return true;
  if (node.Is(Op::kGather) || node.Is(Op::kGatherND) || node.Is(Op::kGatherElements)) {
    const Tensor* table = node.constant(0);
    return table != nullptr && table->dtype() == DType::kFloat32;
  }
  if (!node.Is(Op::kCast) || node.input(0) == nullptr) return false;
  const DType dtype = node.input(0)->type.dtype;
  if (dtype == DType::kFloat64) return node.input(0)->producer == nullptr;
  if (IsHalf(dtype)) return true;
  return dtype != DType::kBool && IsInteger(dtype) && DTypeBits(dtype) <= 16;
}

}  // namespace

std::set<const Value*> ShapeOrIndexValues(const Graph& graph) {
  std::set<const Value*> soi;
  for (const auto& value : graph.values()) {
    if (value->type.dtype != DType::kFloat32) soi.insert(value.get());
  }
  for (const auto& node : graph.nodes()) {
    const OpDef* op = FindOp(*node);
    bool from_shapes = op != nullptr && op->quant == QuantRule::kShape;
    if (MakesData(*node)) continue;
    if (!from_shapes) {
      // A float that depends on shapes and constants only is no data; neither is one that is cast
      // from indices.
      bool any = false;
      bool all = true;
      for (const Value* input : node->inputs) {
        if (input == nullptr || input->is_constant()) continue;
        any = true;
        all = all && soi.contains(input);
      }
      from_shapes = any && all;
    }
    if (!from_shapes) continue;
    for (const Value* output : node->outputs) {
      if (output) soi.insert(output);
    }
  }
  return soi;
}

}  // namespace requant
