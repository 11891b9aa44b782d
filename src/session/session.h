#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "interpret/interpreter.h"
#include "ir/graph.h"
#include "onnx/tensor_proto.h"
#include "plan/plan.h"
#include "session/program.h"

namespace requant {

/// Inputs and outputs that stay where they are from run to run; made by Session::Bind.
struct BoundRun {
  std::shared_ptr<const Plan> plan;  // one of these
  std::shared_ptr<Program> program;
  TensorMap feeds;                  // share their memory with the tensors that were bound
  std::vector<const void*> inputs;  // that memory, in graph order
  std::vector<Tensor> outputs;      // in graph order, filled by every run
};

/// Runs a graph: plans it for the shapes of the feeds (the last few plans are kept), executes the
/// plan in an arena. A graph with control flow or data-dependent shapes is a Program of several.
class Session {
 public:
  Session(std::shared_ptr<const Graph> graph, SessionOptions options);

  /// Runs a plan that was saved; options.plan is not looked at. Throws like LoadPlan.
  Session(const SharedBytes& saved_plan, SessionOptions options);

  /// Runs a body (session/bodies.h) with these plans (of SavePlans) where the feeds have their
  /// shapes; others are planned with options.plan. Throws like LoadPlan.
  Session(const Graph& body, std::span<const SharedBytes> saved_plans, SessionOptions options);

  /// The plan or Program that ran last (or was prepared) as bytes, for the constructor above.
  /// Throws kUnsupported before the first run of a graph of open shape.
  std::vector<uint8_t> Save() const;

  /// What Save() gives for every plan that is kept, the one that ran last first.
  std::vector<std::vector<uint8_t>> SavePlans() const;

  /// Outputs in graph order, in memory of their own. Throws like Interpret.
  std::vector<Tensor> Run(const TensorMap& feeds);

  /// Shows output `i` as `visit(i, tensor, channels_last)`, whose memory is valid during the call
  /// and whose dimensions are in ONNX's order even if the elements are channels-last. In any order.
  /// Only for a session with options.plan.visit, which can do nothing else.
  using Visitor = std::function<void(size_t, const Tensor&, bool)>;
  void Visit(const TensorMap& feeds, const Visitor& visit);

  /// Plans runs of these feeds. Throws as Run, and kUnsupported where the shape of an output
  /// depends on data.
  BoundRun Bind(const TensorMap& feeds);
  /// Computes bound.outputs from what the feeds' memory holds now. Allocates nothing, unless an
  /// operator runs by its reference, a run of other shapes came in between or it is a Program.
  void Run(const BoundRun& bound);

  /// Inputs and outputs are what matters: constants that are packed may be gone.
  const Graph& graph() const { return *graph_; }
  /// Plans ahead of the first run when all input shapes are known; false when they are not. There
  /// is only one plan then, so the session lets go of the graph it was given: packed weights are
  /// held once. After an error the session cannot run.
  bool Prepare();
  /// Plans ahead of a run of feeds of these shapes, whose data is not looked at.
  void PrepareFor(const TensorMap& feeds);
  /// The plan that ran last (or was prepared); nullptr before that or for a Program.
  const Plan* plan() const { return current_ ? current_->plan.get() : nullptr; }
  SessionMemory memory() const;
  /// Whether what was planned or loaded needs kernels for few bits that are not there yet.
  bool LacksLowBits() const;
  std::vector<StepProfile> Profile() const;

 private:
  struct Entry {
    std::vector<Shape> shapes;
    std::shared_ptr<const Plan> plan;  // one of these
    std::shared_ptr<Program> program;
    std::vector<StepProfile> profile;
    std::vector<std::vector<size_t>> visits;  // by step: outputs that are there before it
  };

  std::vector<uint8_t> Save(const Entry& entry) const;
  /// Appends what was saved to the entries; returns its inputs and outputs.
  std::shared_ptr<const Graph> Load(const SharedBytes& saved_plan);
  void Enter(Entry& entry);
  /// Checks the feeds and finds the plan for them; fills `inputs` with their memory.
  Entry& Find(const TensorMap& feeds, std::vector<const void*>& inputs);
  /// Runs the current entry's plan.
  void Execute(std::span<const void* const> inputs, std::vector<Tensor>& results);
  /// `only`: no other shapes can follow.
  Entry& EntryFor(std::vector<Shape> shapes, bool only = false);

  std::shared_ptr<const Graph> graph_;
  SessionOptions options_;
  std::list<Entry> entries_;  // most recently used first
  Entry* current_ = nullptr;
  AlignedBuffer arena_;
};

}  // namespace requant
