// What no single plan can do: control flow, and shapes that depend on data.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "interpret/interpreter.h"
#include "ir/graph.h"
#include "ops/op.h"
#include "session/options.h"

namespace requant {

class Session;

/// A graph as a list of steps, for one set of input shapes:
///
///   1. the part with static shapes, as a session of its own (one plan);
///   2. control flow, data-dependent operators and whatever is cheap after them, one by one;
///      subgraphs are sessions, with plans for the shapes they are given;
///   3. what is left from the next expensive operator on: a session again, whose inputs have shapes
///      by then. It may be a Program in turn.
///
/// What is planned once stays planned: only shapes that have not been seen lately cost anything.
class Program {
 public:
  /// `graph`: specialized for the shapes, with at least one node that is not IsPlannable.
  Program(std::unique_ptr<Graph> graph, const SessionOptions& options);
  ~Program();

  /// The feeds must have been checked. Outputs in graph order, in memory of their own.
  std::vector<Tensor> Run(const TensorMap& feeds);

  const Graph& graph() const { return *graph_; }
  /// Of all sessions inside, and the operators between them.
  std::vector<StepProfile> Profile() const;
  /// The sum over all sessions inside.
  SessionMemory memory() const;

 private:
  class Bodies;
  using Environment = std::map<const Value*, Tensor>;

  /// One session over part of the graph, made when the types of its inputs are known.
  struct Part {
    std::shared_ptr<Graph> graph;
    std::unique_ptr<Session> session;
    std::vector<const Value*> inputs, outputs;  // of the whole graph
  };

  Part MakePart(const std::vector<const Node*>& nodes, const std::vector<const Value*>& outputs);
  void RunPart(Part& part, Environment& values);

  std::unique_ptr<Graph> graph_;
  SessionOptions options_;
  Part head_, tail_;
  std::vector<const Node*> middle_;
  std::vector<StepProfile> profile_;  // of middle_
  std::unique_ptr<Bodies> bodies_;
};

}  // namespace requant
