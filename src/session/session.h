#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "interpret/interpreter.h"
#include "ir/graph.h"
#include "onnx/tensor_proto.h"
#include "plan/open/open_plan.h"
#include "plan/plan.h"
#include "plan/stages.h"
#include "session/execution.h"
#include "session/options.h"
#include "session/variants.h"

namespace requant {

/// Inputs and outputs that stay in the same memory from run to run; Session::Bind makes it.
struct BoundRun {
  std::shared_ptr<Execution> execution;
  std::vector<Shape> shapes;        // of the inputs
  bool follows = false;             // the execution's plan takes other shapes when they run
  TensorMap feeds;                  // share memory with the bound tensors
  std::vector<const void*> inputs;  // memory of the inputs, in graph order
  std::vector<Tensor> outputs;      // in graph order, filled by every run
};

/// Runs a graph: plans it for the shapes of the feeds (and keeps the last few plans), then executes
/// the plan in an arena. From the fourth shapes on, one plan follows the dimensions that change
/// from run to run. A graph with control flow or data-dependent shapes runs as a Program: the first
/// shapes have one of their own, and from the second shapes on one serves all others. Where an
/// input chooses the branches, Run takes them as they are and runs a plan (session/variants.h).
class Session {
 public:
  Session(PreparedModel model, SessionOptions options);
  Session(const Session&) = delete;  // executions refer to its options and arena
  Session& operator=(const Session&) = delete;
  /// Runs a copy of the graph as it is.
  Session(const Graph& graph, SessionOptions options)
      : Session(PreparedModel::AsIs(graph.Clone()), std::move(options)) {}

  /// Runs a saved plan; ignores options.plan. Throws as LoadPlan does.
  Session(const SharedBytes& saved_plan, SessionOptions options);

  /// Runs a body (session/bodies.h) with these plans from SavePlans where the feeds have their
  /// shapes; other shapes are planned with options.plan. Throws as LoadPlan does.
  Session(const Graph& body, std::span<const SharedBytes> saved_plans, SessionOptions options);

  /// Saves the plan or Program that ran last (or was prepared), for the constructor above. Throws
  /// kUnsupported before the first run of a graph with open shapes.
  std::vector<uint8_t> Save();

  /// Saves every plan that is kept, the one that ran last first.
  std::vector<std::vector<uint8_t>> SavePlans();

  /// Runs the graph and returns its outputs in order, in memory of their own. Throws as Interpret
  /// does.
  std::vector<Tensor> Run(const TensorMap& feeds);

  /// A session of the same model whose plans keep these pairs in the memory of their inputs
  /// (session/state.h). The two share their packed weights, and neither needs the other.
  /// Throws kUnsupported for a session that keeps no model: of fixed shapes, or of a saved plan.
  std::unique_ptr<Session> WithState(std::vector<StatePair> pairs);
  /// As Run(feeds), where the inputs that grow have room for so many tokens, by name. The outputs
  /// that lie in them, and those of which `unwanted` has a number that is not 0, may stay empty.
  std::vector<Tensor> Run(const TensorMap& feeds, const std::map<std::string, int64_t>& room,
                          std::span<const uint8_t> unwanted);

  /// Runs the graph and calls visit(i, tensor, channels_last) for every output `i`, in any order.
  /// The tensor's memory is valid during the call; its dimensions are in ONNX's order even if its
  /// elements are channels-last. Requires options.plan.visit, with which a session can do nothing
  /// else.
  using Visitor = std::function<void(size_t, const Tensor&, bool)>;
  void Visit(const TensorMap& feeds, const Visitor& visit);

  /// Plans runs of these feeds. Throws as Run does, and kUnsupported where the shape of an output
  /// depends on data.
  BoundRun Bind(const TensorMap& feeds);
  /// Computes bound.outputs from the present contents of the feeds' memory. Allocates nothing,
  /// unless an operator runs by its reference, other shapes ran in between, or the graph is a
  /// Program.
  void Run(BoundRun& bound);

  /// The graph with its inputs and outputs; its constants may be gone once they are packed.
  const Graph& graph() const { return model_ ? model_->graph() : only_->interface(); }
  /// Plans ahead of the first run and returns true when all input shapes are known. The session
  /// then has only one plan and releases the graph it was given, so weights are held once, packed.
  /// After an error the session cannot run.
  bool Prepare();
  /// Plans ahead of a run with feeds of these shapes; ignores their data.
  void PrepareFor(const TensorMap& feeds);
  /// The plan that ran last (or was prepared); nullptr before that, or for a Program.
  const Plan* plan() const;
  /// The execution that ran last (or was prepared); nullptr before that.
  const Execution* execution() const;
  SessionMemory memory() const;
  /// Whether the plans, made or loaded, need kernels for few bits that are not loaded yet.
  bool LacksLowBits() const;
  std::vector<StepProfile> Profile() const;

 private:
  explicit Session(SessionOptions options);

  struct Entry {
    std::vector<Shape> shapes;
    std::shared_ptr<Execution> execution;
    std::vector<std::vector<size_t>> visits;  // for each step, the outputs that exist before it
  };

  /// How the entry for some shapes may be made.
  enum class Need : uint8_t {
    kAny,
    kTheseShapes,  // not by a Program for all shapes, which knows no shapes of outputs
    kOnly,         // for these shapes, and no other shapes follow
  };
  /// Finds the session for the switches in the feeds, and sets `rest` to the other feeds. Sets
  /// variant_ to nullptr where this session itself runs the feeds.
  bool EnterVariant(const TensorMap& feeds, TensorMap& rest);
  /// Appends a saved plan to the entries.
  Entry& Load(const SharedBytes& saved_plan);
  void Enter(Entry& entry);
  /// Checks the feeds and finds the plan for them; sets `inputs` to their memory.
  Entry& Find(const TensorMap& feeds, std::vector<const void*>& inputs, Need need = Need::kAny);
  /// Finds or makes the entry for these shapes.
  Entry& EntryFor(std::vector<Shape> shapes, Need need = Need::kAny);
  /// The Program for all shapes; nullptr where there is none (yet).
  std::shared_ptr<Execution> OpenProgram();
  /// Finds the plan that follows shapes, reshaped for these; nullptr where they need another.
  std::shared_ptr<Execution> Reshaped(const std::vector<Shape>& shapes);
  /// Makes the plan that follows shapes; nullptr where there cannot be one for these shapes.
  std::shared_ptr<Execution> MakeOpenPlan(const std::vector<Shape>& shapes);
  void ForgetOpenPlan();
  void RemoveOpenEntry();
  /// Saves an entry's plan, or a Program for its shapes.
  std::vector<uint8_t> Save(const Entry& entry);
  /// Makes the plans of all shapes, also those of parts and bodies, share their packed weights.
  void SharePackedWeights();
  std::shared_ptr<Execution> MakeExecution(PreparedModel model, const std::vector<Shape>& shapes);
  /// Sets dynamic_ from the model specialized for some shapes.
  void NoteDynamicValues(const Graph& specialized);

  /// What plans are made of; empty for a session that needs no other plan.
  std::optional<PreparedModel> model_;
  /// The only execution of a session without a model.
  std::shared_ptr<const Execution> only_;
  SessionOptions options_;
  bool shares_weights_ = false;
  bool looked_for_variants_ = false;
  std::unique_ptr<Variants> variants_;
  Session* variant_ = nullptr;  // that ran last, after the entries
  std::vector<Shape> variant_shapes_;
  /// Names of the values that the Program of the first shapes found to depend on data, if one with
  /// the model's own control flow was made.
  std::optional<std::set<std::string>> dynamic_;
  std::shared_ptr<Execution> open_program_;
  /// The plan that follows shapes and its execution, which has an entry while it is there.
  std::unique_ptr<OpenPlan> open_plan_;
  std::shared_ptr<Execution> open_execution_;
  int plans_made_ = 0;        // for single shapes, since the last open plan
  bool never_open_ = false;   // no plan can follow the shapes of this model
  std::list<Entry> entries_;  // most recently used first
  Entry* current_ = nullptr;
  AlignedBuffer arena_;
};

}  // namespace requant
