#pragma once

#include <string>
#include <vector>

#include "base/late_function.h"
#include "ir/graph.h"
#include "passes/runner.h"
#include "plan/plan.h"
#include "session/options.h"

namespace requant {

class Session;

/// JSON as described in bindings/README.md.
std::string ModelInfoJson(const Graph& graph);
std::string PlanJson(const Plan* plan);
/// Writes the Program of a session as a list of instructions; {} before its first run.
std::string ProgramJson(const Session& session);
extern const LateFunction<decltype(ProgramJson)> kProgramJson;
std::string ProfileJson(const std::vector<StepProfile>& profile);
/// Runs passes on the graph and returns the JSON report of Model.optimize; with `dump` it includes
/// the graph after every pass that changed it.
std::string OptimizeToJson(Graph& graph, PipelineOptions options, bool dump);
std::string OperatorsJson();
std::string PassesJson();
std::string KernelsJson();

}  // namespace requant
