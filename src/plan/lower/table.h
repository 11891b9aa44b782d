// Which operators have fast paths. Adding one: plan/lower/<op>.cpp and a row in table.cpp. An
// operator without a row, or whose rows decline, runs by its reference, which shows in the plan as
// kernel "reference".
#pragma once

#include <span>

#include "plan/builder.h"

namespace requant {

using LowerFunction = bool (*)(PlanBuilder& builder, const Node& node);

struct LowerRow {
  const char* op;
  const char* domain;
  /// Adds the steps that compute the node's outputs, or returns false without adding any.
  LowerFunction lower;
  /// Which nodes `lower` is for; nullptr: all. A row whose code is among the rarer operators has
  /// one, unless its operator is, too; without them it is not asked.
  bool (*fits)(const Node& node) = nullptr;
};

std::span<const LowerRow> LowerTable();

/// Of the operators over three spatial dimensions, if the graph has any, else nullptr: among the
/// rarer operators, which are worth loading for these (bindings/README.md).
LowerFunction VolumeLowering(const Graph& graph);

/// The plain path: evaluates the node by its reference.
void LowerByReference(PlanBuilder& builder, const Node& node);

}  // namespace requant
