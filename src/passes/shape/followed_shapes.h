#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph.h"
#include "tensor/shape.h"

namespace requant {

/// The types and the shape arithmetic of a prepared graph for shapes of its inputs that change from
/// run to run. Where ResolveShapes walks over the whole graph and erases what it folds, this keeps
/// all nodes and computes anew only what follows from the dimensions that changed.
///
/// A value that is computed from shapes alone has both a producer and a constant here.
class FollowedShapes {
 public:
  /// Walks over the whole graph. Afterwards ready() says whether all types are known.
  FollowedShapes(Graph graph, const std::vector<Shape>& input_shapes);

  bool ready() const { return ready_; }
  const Graph& graph() const { return graph_; }
  /// Whether the node's outputs are constants.
  bool IsFolded(const Node& node) const { return folded_[node.position]; }

  /// Follows other shapes of the inputs, one for each input that is no constant, in order. Returns
  /// false, and cannot be used any more, where a type is no longer known or a node that was
  /// folded cannot be. Throws as InferNode and the references of operators do, after which it
  /// cannot be used either.
  bool Follow(const std::vector<Shape>& input_shapes);
  /// The nodes that Follow() computed anew because a type or a constant that they read changed, in
  /// the order of the graph.
  const std::vector<const Node*>& touched() const { return touched_; }
  /// The values whose constants Follow() changed.
  const std::vector<const Value*>& changed_constants() const { return changed_constants_; }

 private:
  /// Sets the shapes of the inputs; marks the readers of those that differ.
  void SetInputs(const std::vector<Shape>& input_shapes);
  void Mark(const Value& value);
  /// Computes the types and constants of a node's outputs, and marks the readers of those that
  /// differ. Returns whether all types are known and the node is folded or not as before.
  bool Visit(const Node& node);

  Graph graph_;
  bool ready_ = false;
  bool first_ = true;  // during the first walk, which decides what is folded
  // Indexed by the nodes' positions.
  std::vector<uint8_t> marked_;
  std::vector<uint8_t> folded_;
  std::vector<const Node*> touched_;
  std::vector<const Value*> changed_constants_;
};

/// Whether two types with known shapes are equal.
bool SameStaticType(const ValueType& a, const ValueType& b);

}  // namespace requant
