// What the rewriting passes share.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace requant {

/// Whether `to` can stand for `from` everywhere without changing a name that users see: a graph
/// output keeps its name by renaming `to`, which must then be no input, output or constant itself.
bool CanReplace(const Graph& graph, const Value* from, const Value* to);

/// Removes `node`, whose first output is the only one used, by letting everyone read `to` instead.
/// Returns false, with nothing done, where CanReplace says no.
bool Bypass(Graph& graph, Node* node, Value* to);

/// Puts `op(output 0 of node, more inputs)` behind `node`: the new node produces what the node's
/// first output was, the node a fresh value of type `between`.
Node* AppendOp(Graph& graph, Node* node, std::string op_type, std::vector<Value*> more_inputs,
               ValueType between, AttributeMap attributes = {});

/// A new operator (of ONNX) or constant that takes part in what replaces `near`, named after it.
Value* AddNear(Graph& graph, const Node* near, const char* op_type, std::vector<Value*> inputs,
               const ValueType& type, AttributeMap attributes = {});
Value* AddNear(Graph& graph, const Node* near, Tensor constant);

/// Makes the input `slot` of `node` a constant with these contents: in place when nobody else reads
/// the old constant, else (or when the slot is empty) as a new value called `name`.
void ReplaceConstant(Graph& graph, Node* node, size_t slot, Tensor tensor, std::string name);

/// Drops the inputs from `slot` on.
void TruncateInputs(Graph& graph, Node* node, size_t slot);

/// The value of a constant with exactly one element.
std::optional<double> ScalarOf(const Value* value);
/// The same, for an operand that does not change the rank of `other` when broadcast with it.
std::optional<double> ScalarOperand(const Value* value, const Value* other);

/// The rank of a value, or -1.
int64_t RankOf(const Value* value);
bool IsFloat32(const Value* value);
/// Same rank, and every dimension known to be equal.
bool SameShape(const Value* a, const Value* b);

/// Removes nodes that no graph output needs, optional outputs that nobody reads, and unused values.
/// Returns whether there were any nodes or outputs.
bool RemoveDeadNodes(Graph& graph);

/// Offers every node to `rewrite(graph, node)`, which returns whether it changed something, until
/// it has nothing to do; then tidies up. `rewrite` may erase nodes.
template <typename Rewrite>
bool RewriteNodes(Graph& graph, Rewrite&& rewrite) {
  bool changed = false;
  for (size_t i = 0; i < graph.nodes().size();) {
    if (rewrite(graph, graph.nodes()[i].get())) {
      changed = true;
      // Nodes shortly before may match now; what is missed is found in the next round.
      i = i > 8 ? i - 8 : 0;
    } else {
      ++i;
    }
  }
  if (changed) {
    graph.SortTopologically();
    RemoveDeadNodes(graph);
  }
  return changed;
}

}  // namespace requant
