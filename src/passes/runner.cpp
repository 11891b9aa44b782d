#include "passes/runner.h"

#include <algorithm>

#include "base/error.h"
#include "base/operators.h"
#include "base/str_cat.h"
#include "ir/verify.h"

namespace requant {
namespace {

void CheckNames(const std::vector<const Pass*>& passes, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    std::string valid;
    bool found = false;
    for (const Pass* pass : passes) {
      found = found || name == pass->name;
      valid += StrCat(valid.empty() ? "" : ", ", pass->name);
    }
    if (!found) {
      Fail(ErrorCode::kInvalidArgument, StrCat("there is no pass '", name, "'"),
           {.hint = StrCat("valid names: ", valid)});
    }
  }
}

bool Contains(const std::vector<std::string>& names, const char* name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void Verify(const Graph& graph, const Pass& pass) {
  try {
    VerifyGraph(graph);
  } catch (const Error& error) {
    throw Error(ErrorCode::kInternal,
                StrCat("pass ", pass.name, " broke the graph: ", error.message()), error.context());
  }
}

}  // namespace

std::vector<OwnPass>& OwnPasses() {
  static std::vector<OwnPass> passes;
  return passes;
}

std::vector<const Pass*> AllPasses(std::span<const Pass> more) {
  std::vector<const Pass*> all;
  for (const Pass& pass : PassTable()) all.push_back(&pass);
  for (const Pass& pass : more) all.push_back(&pass);
  for (const OwnPass& own : OwnPasses()) {
    const std::string& anchor = own.before.empty() ? own.after : own.before;
    auto at = std::find_if(all.begin(), all.end(),
                           [&](const Pass* pass) { return anchor == pass->name; });
    if (at != all.end() && own.before.empty()) ++at;
    all.insert(at, own.pass);
  }
  return all;
}

PipelineReport RunPasses(Graph& graph, const PipelineOptions& options) {
  const std::vector<const Pass*> all = AllPasses(options.more);
  CheckNames(all, options.only);
  CheckNames(all, options.disable);
  PipelineReport report;
  PassContext context;
  context.for_plan = options.for_plan;
  context.for_quantizer = options.for_quantizer;
  if (options.dump) options.dump("", graph);
  std::vector<const Pass*> passes;
  for (const Pass* pass : all) {
    if (options.only.empty() ? pass->optional() : !Contains(options.only, pass->name)) continue;
    if (!Contains(options.disable, pass->name)) passes.push_back(pass);
  }
  // The loop ends when every pass has found nothing to do since the last change.
  size_t idle = 0;
  for (; idle < passes.size() && report.rounds < options.max_rounds; ++report.rounds) {
    for (const Pass* pass : passes) {
      PassReport& entry = report.passes.emplace_back();
      entry.name = pass->name;
      entry.round = report.rounds + 1;
      entry.nodes_before = graph.nodes().size();
      const double start = options.now ? options.now() : 0;
      const bool applies =
          pass->may_apply == nullptr || (OperatorsLoaded() && pass->may_apply(graph));
      entry.changed = applies && pass->run(graph, context);
      entry.milliseconds = options.now ? options.now() - start : 0;
      entry.nodes_after = graph.nodes().size();
      // Annotations give no other pass anything to do.
      idle = entry.changed && !pass->annotates() ? 0 : idle + 1;
      if (options.verify) Verify(graph, *pass);
      if (options.dump && entry.changed) options.dump(pass->name, graph);
      if (idle >= passes.size()) break;
    }
  }
  return report;
}

}  // namespace requant
