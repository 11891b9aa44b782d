// How a session runs its model for one set of input shapes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "interpret/interpreter.h"
#include "ir/graph.h"
#include "plan/plan.h"
#include "session/listing.h"
#include "session/options.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

namespace requant {

/// Details that few runs have, in graph order.
struct RunDetails {
  /// For each input that grows (Plan::growing), the tokens for which it has room. The outputs that
  /// lie in it stay empty.
  std::span<const int64_t> room;
  /// For each output, whether nobody wants it, so that it may stay empty.
  std::span<const uint8_t> unwanted;
};

/// A plan in an arena, or a Program (session/program.h) for models that no single plan can run.
class Execution {
 public:
  virtual ~Execution() = default;

  /// Makes room for a run. A session calls this before it makes an execution the current one.
  virtual void Enter() = 0;
  /// Runs the model. `inputs`: the memory of the feeds, in graph order. Writes into the tensors
  /// that `results` holds, in graph order, or makes them if it is empty.
  virtual void Run(const TensorMap& feeds, std::span<const void* const> inputs,
                   std::vector<Tensor>& results, const RunDetails& details = {}) = 0;
  /// Tensors for the results of a run. Throws kUnsupported where a shape depends on data.
  virtual std::vector<Tensor> MakeResults() const = 0;
  /// Saves what can be loaded for these shapes; `graph` has the model's inputs and outputs.
  virtual std::vector<uint8_t> Save(const Graph& graph, const std::vector<Shape>& shapes) const = 0;

  /// The plan, or nullptr for a Program.
  virtual const Plan* plan() const = 0;
  /// A graph with the inputs and outputs, which lives as long as the execution.
  virtual const Graph& interface() const = 0;
  virtual SessionMemory memory() const = 0;
  /// Whether a run needs kernels for few bits that are not loaded yet.
  virtual bool LacksLowBits() const = 0;
  virtual std::vector<StepProfile> Profile() const = 0;
  /// Appends the instructions of a run to `listing`. `values` has the registers of the inputs that
  /// exist, and gets those of the outputs. It is among the extended operators.
  virtual void List(const std::string& part, Listing& listing, ValueRegisters& values) const = 0;
};

/// Runs a plan in `arena`, which the executions of a session share. `options` and `arena` must
/// outlive it.
class PlanExecution : public Execution {
 public:
  /// `interface`: a graph with the inputs and outputs, for a plan that has none.
  PlanExecution(std::shared_ptr<const Plan> plan, std::shared_ptr<const Graph> interface,
                const SessionOptions& options, AlignedBuffer& arena);

  void Enter() override;
  void Run(const TensorMap& feeds, std::span<const void* const> inputs,
           std::vector<Tensor>& results, const RunDetails& details = {}) override;
  std::vector<Tensor> MakeResults() const override;
  std::vector<uint8_t> Save(const Graph& graph, const std::vector<Shape>& shapes) const override;
  const Plan* plan() const override { return plan_.get(); }
  const Graph& interface() const override { return *interface_; }
  SessionMemory memory() const override;
  bool LacksLowBits() const override;
  std::vector<StepProfile> Profile() const override;
  void List(const std::string& part, Listing& listing, ValueRegisters& values) const override;

 private:
  std::shared_ptr<const Plan> plan_;
  std::shared_ptr<const Graph> interface_;
  const SessionOptions& options_;
  AlignedBuffer& arena_;
  struct Measured {
    double milliseconds = 0;
    int runs = 0;
  };
  std::vector<Measured> measured_;  // of each step
};

}  // namespace requant
