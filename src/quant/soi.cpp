#include "quant/soi.h"

#include "ops/op.h"

namespace requant {

std::set<const Value*> ShapeOrIndexValues(const Graph& graph) {
  std::set<const Value*> soi;
  for (const auto& value : graph.values()) {
    if (value->type.dtype != DType::kFloat32) soi.insert(value.get());
  }
  for (const auto& node : graph.nodes()) {
    const OpDef* op = FindOp(node->op_type, node->domain);
    bool from_shapes = op != nullptr && op->quant == QuantRule::kShape;
    // What integers stand for is data.
    if (node->Is("DequantizeLinear")) continue;
    if (!from_shapes) {
      // A float that has only shapes and constants behind it; a Cast of indices counts, too.
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
