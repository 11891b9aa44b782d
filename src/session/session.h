#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "interpret/interpreter.h"
#include "ir/graph.h"
#include "plan/plan.h"

namespace requant {

struct SessionOptions {
  PlanOptions plan;
  /// Milliseconds of each step are kept for Profile(). Uses `now`.
  bool profile = false;
  /// Wall clock in milliseconds.
  double (*now)() = nullptr;
};

/// One line of the profile.
struct StepProfile {
  std::string name, op, kernel;
  double milliseconds = 0;  // sum over runs
  int64_t macs = 0;         // of one run
  int runs = 0;
};

/// Memory of the plan that ran last, in bytes.
struct SessionMemory {
  size_t arena = 0;
  size_t arena_lower_bound = 0;
  size_t packed_weights = 0;
};

/// Runs a graph: plans it for the shapes of the feeds (the last few plans are kept), executes the
/// plan in an arena. A graph with data-dependent shapes runs by the interpreter instead.
class Session {
 public:
  Session(std::shared_ptr<const Graph> graph, SessionOptions options);

  /// Outputs in graph order, in memory of their own. Throws like Interpret.
  std::vector<Tensor> Run(const TensorMap& feeds);

  const Graph& graph() const { return *graph_; }
  /// Plans ahead of the first run when all input shapes are known; false when they are not.
  bool Prepare();
  /// The plan that ran last (or was prepared); nullptr before that or when interpreted.
  const Plan* plan() const { return current_ ? current_->plan.get() : nullptr; }
  SessionMemory memory() const;
  std::vector<StepProfile> Profile() const;

 private:
  struct Entry {
    std::vector<Shape> shapes;
    std::shared_ptr<const Plan> plan;  // nullptr: interpreted
    std::vector<StepProfile> profile;
  };

  Entry& EntryFor(std::vector<Shape> shapes);

  std::shared_ptr<const Graph> graph_;
  SessionOptions options_;
  std::list<Entry> entries_;  // most recently used first
  Entry* current_ = nullptr;
  AlignedBuffer arena_;
};

}  // namespace requant
