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
#include "plan/file.h"
#include "session/options.h"

namespace requant {

class Bodies;
class Session;

/// A graph as a list of steps, for one set of input shapes:
///
///   1. the head: the part with static shapes, as a session of its own (one plan);
///   2. the middle: control flow, data-dependent operators and whatever is cheap after them, one by
///      one; subgraphs are sessions, with plans for the shapes they are given;
///   3. the tail: what is left from the next expensive operator on, a session again. Its inputs
///      have shapes by then, maybe others in every run. It may be a Program in turn.
///
/// What is planned once stays planned: only shapes that have not been seen lately cost anything.
class Program {
 public:
  /// `graph`: specialized for the shapes, with at least one node that is not IsPlannable.
  Program(const Graph& graph, const SessionOptions& options);
  ~Program();

  /// The plans of the parts whose shapes are known, and what is left as a graph that is optimized
  /// already.
  std::vector<uint8_t> Save() const;
  /// What was saved; options.plan is not looked at. Throws as LoadPlan.
  static std::shared_ptr<Program> Load(SavedFile file, const SessionOptions& options);

  /// The feeds must have been checked. Outputs in graph order, in memory of their own.
  std::vector<Tensor> Run(const TensorMap& feeds);

  /// Inputs and outputs only.
  const Graph& graph() const { return interface_; }
  /// Of all sessions inside, and the operators between them.
  std::vector<StepProfile> Profile() const;
  /// The sum over all sessions inside.
  SessionMemory memory() const;
  /// Whether kernels for few bits are or may be chosen that are not loaded yet.
  bool LacksLowBits() const;

 private:
  /// One session over part of the graph.
  struct Stage {
    /// Of one that is planned when it runs, until it has a session.
    std::shared_ptr<const Graph> graph;
    std::unique_ptr<Session> session;
    bool planned = false;  // by its session, which keeps no graph then

    const Graph* Interface() const;
  };

  Program();
  void MakeStage(Stage& stage, Graph graph);
  /// When all parts are there.
  void Complete();
  /// `values`: all that is known, by name.
  void RunStage(Stage& stage, TensorMap& values);
  template <typename Visit>
  void ForEachSession(Visit&& visit) const;

  SessionOptions options_;
  Graph interface_;
  Stage head_, tail_;
  Graph middle_;
  std::vector<StepProfile> profile_;  // of the middle
  std::unique_ptr<Bodies> bodies_;
};

/// Program::Load, which is called through a pointer: the function is among the rarer operators.
extern std::shared_ptr<Program> (*const kLoadProgram)(SavedFile file,
                                                      const SessionOptions& options);

/// What a program is planned with, written or read.
void OptionFields(PlanArchive& archive, PlanOptions& options);

}  // namespace requant
