#include "quant/graph/prepare.h"

#include "ops/op.h"

namespace requant {

void RefreshTypes(Graph& graph) {
  for (const auto& node : graph.nodes()) {
    // An unknown operator keeps the types of the file.
    if (node->typed || FindOp(*node) == nullptr) continue;
    const std::vector<ValueType> types = InferNode(graph, *node);
    for (size_t i = 0; i < node->outputs.size(); ++i) {
      Value* value = node->outputs[i];
      if (value == nullptr) continue;
      if (value->type.dtype == DType::kUndefined) value->type.dtype = types[i].dtype;
      if (!types[i].shape) continue;
      if (!value->type.shape || value->type.shape->size() != types[i].shape->size()) {
        value->type.shape = types[i].shape;
        continue;
      }
      for (size_t d = 0; d < types[i].shape->size(); ++d) {
        const Dim& dim = (*types[i].shape)[d];
        Dim& own = (*value->type.shape)[d];
        if (!own.known() && (dim.known() || own.symbol.empty())) own = dim;
      }
    }
  }
}

}  // namespace requant
