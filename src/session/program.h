// Runs graphs that no single plan can: with control flow, and with shapes that depend on data.
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
/// 1. The head is the part with static shapes, a session of its own (one plan).
/// 2. The middle is control flow, data-dependent operators and cheap operators after them, run one
/// by one. Subgraphs are sessions, with plans for the shapes they are given.
/// 3. The tail is the rest, from the next expensive operator on, and a session again. The shapes of
/// its inputs are known once the middle has run, and may differ from run to run. It may be a
/// Program in turn.
///
/// Plans are kept: only shapes that were not used lately are planned again.
class Program {
 public:
  /// `graph` is specialized for the shapes and has at least one node that is not IsPlannable.
  Program(const Graph& graph, const SessionOptions& options);
  ~Program();

  /// Saves the plans of the parts whose shapes are known, and the rest as a graph that is optimized
  /// already.
  std::vector<uint8_t> Save() const;
  /// Loads a saved program; ignores options.plan. Throws as LoadPlan does.
  static std::shared_ptr<Program> Load(SavedFile file, const SessionOptions& options);

  /// Runs the program and returns the outputs in graph order, in memory of their own. The feeds
  /// must have been checked.
  std::vector<Tensor> Run(const TensorMap& feeds);

  /// A graph of inputs and outputs only.
  const Graph& graph() const { return interface_; }
  /// The profile of all sessions inside and of the operators between them.
  std::vector<StepProfile> Profile() const;
  /// The sum over all sessions inside.
  SessionMemory memory() const;
  /// Whether the program uses, or may choose, kernels for few bits that are not loaded yet.
  bool LacksLowBits() const;

 private:
  /// One session over part of the graph.
  struct Stage {
    /// The graph of a stage that is planned when it runs, until it has a session.
    std::shared_ptr<const Graph> graph;
    std::unique_ptr<Session> session;
    bool planned = false;  // by its session, which then keeps no graph

    const Graph* Interface() const;
  };

  Program();
  void MakeStage(Stage& stage, Graph graph);
  /// Completes the program once all parts exist.
  void Complete();
  /// Runs a stage; `values` has everything known so far, by name.
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

/// Points to Program::Load, which is among the extended operators.
extern std::shared_ptr<Program> (*const kLoadProgram)(SavedFile file,
                                                      const SessionOptions& options);

/// Writes or reads the options that a program is planned with.
void OptionFields(PlanArchive& archive, PlanOptions& options);

}  // namespace requant
