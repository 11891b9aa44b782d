// The nested graphs of a model: bodies of If, Loop and Scan in the graphs around them. For code
// that changes the constants that operators in bodies read, whether the body owns or captures them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph.h"

namespace requant {

class BodyScope {
 public:
  /// Starts at the model's own graph.
  explicit BodyScope(Graph& graph) : graph_(graph) {}

  Graph& graph() const { return graph_; }
  /// A node's name behind the names of the nodes and bodies around it: "if/then_branch/product".
  std::string PathOf(const Node& node) const { return path_ + node.name; }

  /// The constant that a value of this graph is or captures, or nullptr.
  const Tensor* ConstantOf(const Value* value) const;

  /// A value of this graph for a constant made from another one, which `source` is or captures. The
  /// new constant lies in the graph of the other one and is captured from there. If any body has
  /// made it under the same name from the same constant before, that one is shared.
  Value* Derive(const Value* source, const std::string& suffix,
                const std::function<Tensor()>& make);

  /// Calls `visit` with the scope of every body of this graph's nodes, a copy that it may change,
  /// and removes captured values that are no longer used from their nodes.
  void ForEachBody(const std::function<void(BodyScope&)>& visit);

  /// The name, or another one that no graph around this one has.
  std::string FreeName(std::string name) const;

 private:
  struct Outside {
    BodyScope& scope;
    Node& owner;
    size_t first;  // the first of the owner's inputs that this body captures
  };

  BodyScope(Graph& graph, BodyScope& around, Node& owner, const std::string& attribute);
  size_t FirstCaptured() const { return graph_.inputs().size() - graph_.captured; }
  /// The value that a captured value stands for; nullptr for others.
  Value* Behind(const Value* value) const;
  /// Captures a value of the graph around this one.
  Value* Capture(Value* outer);
  void DropUnusedCaptures();

  Graph& graph_;
  std::unique_ptr<Outside> outside_;
  std::string path_;
  std::map<std::pair<const Value*, std::string>, Value*> made_;
};

/// Calls `visit` for every node in the bodies of `graph`'s nodes, bodies of bodies included, with
/// the path of BodyScope::PathOf and the node of `graph` that holds the body.
void VisitBodies(const Graph& graph,
                 const std::function<void(const std::string& path, const Node& node,
                                          const Node& outermost)>& visit);

}  // namespace requant
