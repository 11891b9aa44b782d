#include "plan/compile.h"

#include <algorithm>

#include "base/error.h"
#include "base/operators.h"
#include "base/str_cat.h"
#include "kernels/variant/missing.h"
#include "plan/arena.h"
#include "plan/builder.h"
#include "plan/lower/table.h"
#include "plan/pack/pack_activations.h"
#include "plan/plan.h"

namespace requant {
namespace {

/// Lowers a node by the first row that can; returns false when there is none.
bool LowerByTable(PlanBuilder& builder, const Node& node) {
  for (const LowerRow& row : LowerTable()) {
    if (node.op_type != row.op || node.domain != row.domain) continue;
    if (row.late && !OperatorsLoaded()) continue;
    if (row.fits != nullptr && !row.fits(node)) continue;
    if (row.lower(builder, node)) return true;
  }
  return false;
}

}  // namespace

void LowerNode(PlanBuilder& builder, const Node& node) {
  try {
    if (!LowerByTable(builder, node)) LowerByReference(builder, node);
    builder.ReleaseConstants(node);
  } catch (Error& error) {
    error.AddNode(node.name);
    throw;
  }
}

void LowerAll(PlanBuilder& builder, Plan& plan) {
  for (const auto& node : plan.graph->nodes()) {
    if (builder.IsAbsorbed(node.get())) continue;
    builder.Begin(node.get());
    LowerNode(builder, *node);
    builder.End();
  }
  builder.Begin(nullptr);
  LowerOutputs(builder, plan);
  builder.End();
  builder.NoteGroups();
}

void LowerOutputs(PlanBuilder& builder, Plan& plan) {
  plan.outputs.clear();
  for (const Value* output : plan.graph->outputs()) {
    const int rows = builder.Growing(output);
    const Layout layout = builder.options().visit ? builder.LayoutOf(output) : Layout::kPlain;
    plan.outputs.push_back(rows >= 0 ? rows : builder.In(output, layout));
  }
}

std::shared_ptr<const Plan> CompilePlan(SpecializedModel model, const PlanOptions& options) {
  auto plan = std::make_shared<Plan>();
  plan->graph = std::make_unique<Graph>(std::move(model).Release());
  FoldForRun(*plan->graph);
  plan->threads = std::max(options.threads, 1);
  PlanBuilder builder(*plan, options);
  LowerAll(builder, *plan);
  if (!options.force_kernels.empty() && kUnheededForces.loaded()) {
    plan->warnings = kUnheededForces(options.force_kernels, builder.choices());
  }
  builder.ReleaseConstants();
  if (MissingLowBits() == nullptr) kPackActivations(*plan, options);
  LayOutArena(*plan, !options.visit);
  return plan;
}

}  // namespace requant
