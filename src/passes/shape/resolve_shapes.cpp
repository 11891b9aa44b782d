#include "passes/shape/resolve_shapes.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "passes/pass.h"
#include "passes/rewrite.h"
#include "passes/shape/fold_node.h"
#include "passes/shape/infer_type.h"
#include "passes/shape/shape_values.h"

namespace requant {
namespace {

bool IsKnown(const ValueType& type) { return type.IsStatic() && type.dtype != DType::kUndefined; }

/// Makes a constant of what Shape or Size computes. Returns whether the node is gone.
bool FoldShape(Graph& graph, const Node& node) {
  Value* output = node.output();
  if (output == nullptr || graph.IsOutput(output) || output->consumers.empty()) return false;
  const auto entries = EntriesOfType(node);
  auto tensor = entries ? TensorOf(*output, *entries) : std::nullopt;
  if (!tensor) return false;
  graph.MakeConstant(output, std::move(*tensor));
  return true;
}

}  // namespace

bool ResolveShapes(Graph& graph) {
  const PassContext limits;
  bool known = true;
  // Folding erases the node at `i`, so the next one is there.
  for (size_t i = 0; i < graph.nodes().size();) {
    Node* node = graph.nodes()[i].get();
    InferNodeTypes(graph, *node);
    known = std::all_of(node->outputs.begin(), node->outputs.end(), [](const Value* output) {
      return output == nullptr || IsKnown(output->type);
    });
    if (!known) break;
    if (!FoldShape(graph, *node) && !FoldNode(graph, node, limits)) ++i;
  }
  RemoveDeadNodes(graph);
  return known;
}

}  // namespace requant
