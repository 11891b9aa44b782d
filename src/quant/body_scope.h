// The graphs of a model, bodies of If, Loop and Scan in the graphs around them, for whoever changes
// the constants that operators in bodies read: theirs, or captured ones.
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
  /// The model's own graph.
  explicit BodyScope(Graph& graph) : graph_(graph) {}

  Graph& graph() const { return graph_; }
  /// A node's name with those of the nodes and bodies that it is in: "if/then_branch/product".
  std::string PathOf(const Node& node) const { return path_ + node.name; }

  /// The constant that a value of this graph is, or captures; nullptr for others.
  const Tensor* ConstantOf(const Value* value) const;

  /// A value of this graph for a constant that is made of another one, which is or captures
  /// `source`. It lies in the graph of that one and is captured from there; what was made under the
  /// same name of the same constant already, in whatever body, is that.
  Value* Derive(const Value* source, const std::string& suffix,
                const std::function<Tensor()>& make);

  /// Calls `visit` with the scope of every body of this graph's nodes, a copy that it may change,
  /// and takes captured values that are not used any more from their nodes.
  void ForEachBody(const std::function<void(BodyScope&)>& visit);

  /// The name, or another one that no graph around this one has.
  std::string FreeName(std::string name) const;

 private:
  struct Outside {
    BodyScope& scope;
    Node& owner;
    size_t first;  // of the owner's inputs that this body captures
  };

  BodyScope(Graph& graph, BodyScope& around, Node& owner, const std::string& attribute);
  size_t FirstCaptured() const { return graph_.inputs().size() - graph_.captured; }
  /// Where a captured value comes from; nullptr for others.
  Value* Behind(const Value* value) const;
  /// A value of this graph for one of the graph around it.
  Value* Capture(Value* outer);
  void DropUnusedCaptures();

  Graph& graph_;
  std::unique_ptr<Outside> outside_;
  std::string path_;
  std::map<std::pair<const Value*, std::string>, Value*> made_;
};

/// Calls `visit` for every node in a body of `graph`'s nodes, bodies of bodies included, with the
/// path that BodyScope::PathOf gives it and the node of `graph` that holds the body.
void VisitBodies(const Graph& graph,
                 const std::function<void(const std::string& path, const Node& node,
                                          const Node& outermost)>& visit);

}  // namespace requant
