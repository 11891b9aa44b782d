// Helpers that rewriting passes share.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace requant {

/// Whether `to` can replace `from` everywhere without changing a name that users see. A graph
/// output keeps its name by renaming `to`, which must then be no input, output or constant itself.
bool CanReplace(const Graph& graph, const Value* from, const Value* to);

/// Removes `node`, of which only the first output is used, and makes its readers read `to` instead.
/// Returns false and does nothing where CanReplace is false.
bool Bypass(Graph& graph, Node* node, Value* to);

/// Inserts `op(output 0 of node, more inputs)` behind `node`: the new node produces the value that
/// was the node's first output, the node a fresh value of type `between`.
Node* AppendOp(Graph& graph, Node* node, std::string op_type, std::vector<Value*> more_inputs,
               ValueType between, AttributeMap attributes = {});

/// Adds an operator (of ONNX) or constant that belongs to the replacement of `near` and is named
/// after it.
Value* AddNear(Graph& graph, const Node* near, const char* op_type, std::vector<Value*> inputs,
               const ValueType& type, AttributeMap attributes = {});
Value* AddNear(Graph& graph, const Node* near, Tensor constant);

/// Makes input `slot` of `node` a constant with this content: in place when nobody else reads the
/// old constant, else (or when the slot is empty) as a new value called `name`.
void ReplaceConstant(Graph& graph, Node* node, size_t slot, Tensor tensor, std::string name);

/// Removes the inputs from `slot` on.
void TruncateInputs(Graph& graph, Node* node, size_t slot);

/// The value of a constant with exactly one element.
std::optional<double> ScalarOf(const Value* value);
/// The value of a constant with exactly one element that does not change the rank of `other` when
/// it is broadcast with it.
std::optional<double> ScalarOperand(const Value* value, const Value* other);

/// The rank of a value, or -1 if it is unknown.
int64_t RankOf(const Value* value);
bool IsFloat32(const Value* value);
/// Whether the ranks are equal and every dimension is known to be equal.
bool SameShape(const Value* a, const Value* b);

/// Removes nodes that no graph output needs, optional outputs that nobody reads, and unused values.
/// Returns whether it removed any nodes or outputs.
bool RemoveDeadNodes(Graph& graph);

/// Calls `rewrite(graph, node)`, which returns whether it changed something, on every node until it
/// changes nothing; then sorts and removes dead nodes. `rewrite` may erase nodes.
template <typename Rewrite>
bool RewriteNodes(Graph& graph, Rewrite&& rewrite) {
  bool changed = false;
  for (size_t i = 0; i < graph.nodes().size();) {
    if (rewrite(graph, graph.nodes()[i].get())) {
      changed = true;
      // Nodes shortly before may match now. Any other matches are found in the next round.
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
