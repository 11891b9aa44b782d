// Runs graphs that no single plan can: with control flow, and with shapes that depend on data.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/late_function.h"
#include "interpret/interpreter.h"
#include "ir/graph.h"
#include "ops/op.h"
#include "plan/saved/file.h"
#include "plan/stages.h"
#include "session/execution.h"
#include "session/options.h"

namespace requant {

class Bodies;
class Session;

/// A graph as a list of steps, for one set of input shapes or for all:
///
/// 1. The head is the part whose shapes follow from those of the inputs, a session of its own: with
/// one plan, or in a program for all shapes with a plan for each that was fed lately.
/// 2. The middle is control flow, data-dependent operators and cheap operators after them, run one
/// by one. Subgraphs are sessions, with plans for the shapes they are given.
/// 3. The tail is the rest, from the next expensive operator on, and a session again. The shapes of
/// its inputs are known once the middle has run, and may differ from run to run. It may be a
/// Program in turn.
///
/// Plans are kept: only shapes that were not used lately are planned again.
class Program : public Execution {
 public:
  /// `graph` is specialized for the shapes and has at least one node that is not IsPlannable; or
  /// its shapes are open, and `dynamic` has the names of the values whose shapes depend on data.
  Program(const Graph& graph, const SessionOptions& options,
          const std::set<std::string>* dynamic = nullptr);
  ~Program() override;

  /// Loads a saved program; ignores options.plan. Throws as LoadPlan does.
  static std::shared_ptr<Program> Load(SavedFile file, const SessionOptions& options);

  void Enter() override {}
  /// The feeds must have been checked.
  void Run(const TensorMap& feeds, std::span<const void* const> inputs,
           std::vector<Tensor>& results, const RunDetails& details = {}) override;
  std::vector<Tensor> MakeResults() const override;
  /// Saves the plans of the parts whose shapes are known, and the rest as a graph that is optimized
  /// already.
  std::vector<uint8_t> Save(const Graph& graph, const std::vector<Shape>& shapes) const override;
  const Plan* plan() const override { return nullptr; }
  const Graph& interface() const override { return interface_; }
  /// The sum over all sessions inside.
  SessionMemory memory() const override;
  /// Also true if the program may choose such kernels when it plans a part.
  bool LacksLowBits() const override;
  /// The profile of all sessions inside and of the operators between them.
  std::vector<StepProfile> Profile() const override;
  void List(const std::string& part, Listing& listing, ValueRegisters& values) const override;

 private:
  /// One session over part of the graph.
  struct Stage {
    /// What a stage that is planned when it runs is made of, until it has a session.
    std::optional<PreparedModel> model;
    std::unique_ptr<Session> session;
    bool planned = false;  // by its session, which then keeps no graph

    const Graph* Interface() const;
  };

  Program();
  void MakeStage(Stage& stage, Graph graph);
  /// Completes the program once all parts exist.
  void Complete();
  std::vector<Tensor> Results(TensorMap values);
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

extern const LateFunction<decltype(Program::Load)> kLoadProgram;

/// Writes or reads the options that a program is planned with.
void OptionFields(PlanArchive& archive, PlanOptions& options);

}  // namespace requant
