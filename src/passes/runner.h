#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "passes/pass.h"

namespace requant {

struct PipelineOptions {
  std::vector<std::string> only;     // names of the passes to run (in table order); empty: all
  std::vector<std::string> disable;  // names of passes not to run
  std::span<const Pass> more;        // passes of layers above, which run after those of the table
  /// Called with "" before the first pass, then with the name of every pass that changed the graph.
  std::function<void(const char* pass, const Graph& graph)> dump;
  /// Milliseconds from any start; without a clock passes are not timed.
  double (*now)() = nullptr;
  /// The most often that the pipeline is repeated until nothing changes.
  int max_rounds = 10;
  bool for_plan = false;       // PassContext::for_plan
  bool for_quantizer = false;  // PassContext::for_quantizer
#ifdef NDEBUG
  bool verify = false;
#else
  bool verify = true;  // runs VerifyGraph after every pass and names the pass in the error
#endif
};

/// One execution of one pass.
struct PassReport {
  std::string name;
  int round = 0;
  bool changed = false;
  double milliseconds = 0;
  size_t nodes_before = 0;
  size_t nodes_after = 0;
};

struct PipelineReport {
  int rounds = 0;
  std::vector<PassReport> passes;
};

/// A pass that a user has added (passes/own/own_pass.h), and the pass that it runs before or after,
/// or "".
struct OwnPass {
  const Pass* pass;
  std::string before, after;
};
std::vector<OwnPass>& OwnPasses();

/// All passes in the order in which they run: those of the table, of `more`, and users' own.
std::vector<const Pass*> AllPasses(std::span<const Pass> more);

/// Runs the passes repeatedly until none changes anything. Throws kInvalidArgument for an unknown
/// pass name (listing the valid ones), or what a pass throws.
PipelineReport RunPasses(Graph& graph, const PipelineOptions& options = {});

}  // namespace requant
