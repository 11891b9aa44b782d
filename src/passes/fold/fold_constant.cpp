// FoldConstant
// Before: a node whose inputs are all constant; shape arithmetic (Shape -> Gather -> Concat ...)
//   whose elements are known although the whole shape is not
// After:  a constant
// Conditions: results of at most PassContext::max_constant_bytes that do not grow their operands
//   beyond max_constant_growth times; no graph output (an output stays computed); and no node that
//   says how values are quantized: DequantizeLinear, QuantizeLinear before it, integer operators;
//   no operator that draws random numbers.
// Formula: the operator's own reference (OpDef::evaluate), on constants or on the symbols of
//   shapes.
#include "passes/pass.h"
#include "passes/rewrite.h"
#include "passes/shape/fold_node.h"
#include "passes/shape/shape_values.h"

namespace requant {
namespace {

/// Makes constants of shape arithmetic whose elements are all known.
bool FoldShapeValues(Graph& graph) {
  bool changed = false;
  for (auto& [value, entries] : FindShapeValues(graph)) {
    if (graph.IsOutput(value)) continue;
    if (value->consumers.empty()) continue;
    std::optional<Tensor> tensor = TensorOf(*value, entries);
    if (!tensor) continue;
    graph.MakeConstant(value, std::move(*tensor));
    changed = true;
  }
  return changed;
}

}  // namespace

bool FoldConstant(Graph& graph, PassContext& context) {
  bool changed = FoldShapeValues(graph);
  // In topological order one walk folds whole chains. Folding erases the node at `i`.
  for (size_t i = 0; i < graph.nodes().size();) {
    const size_t before = graph.nodes().size();
    const bool folded = FoldNode(graph, graph.nodes()[i].get(), context);
    changed = changed || folded;
    if (!folded || graph.nodes().size() == before) ++i;
  }
  if (changed) RemoveDeadNodes(graph);
  return changed;
}

}  // namespace requant
