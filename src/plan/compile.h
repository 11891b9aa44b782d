// The parts of planning that CompilePlan and OpenPlan share.
#pragma once

#include "plan/builder.h"
#include "plan/plan.h"

namespace requant {

/// Makes the steps of the node that the builder has begun. Errors name it.
void LowerNode(PlanBuilder& builder, const Node& node);

/// Makes the steps of all nodes, finds the outputs, and notes which nodes run together.
void LowerAll(PlanBuilder& builder, Plan& plan);

/// Finds the slots of the graph's outputs, in the layout that they need.
void LowerOutputs(PlanBuilder& builder, Plan& plan);

}  // namespace requant
