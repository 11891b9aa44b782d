// The table of operators with fast paths. Adding one takes plan/lower/<op>.cpp and a line of
// lowerings.inc. An operator without a row, or whose rows decline, runs by its reference; the plan
// shows that as kernel "reference".
#pragma once

#include <span>

#include "plan/builder.h"

namespace requant {

using LowerFunction = bool (*)(PlanBuilder& builder, const Node& node);

struct LowerRow {
  const char* op;
  const char* domain;
  /// Adds the steps that compute the node's outputs, or returns false and adds none.
  LowerFunction lower;
  /// Which nodes `lower` is for; nullptr: all. A row whose code is among the extended operators,
  /// while its operator is not, must have one: without those modules the row is skipped.
  bool (*fits)(const Node& node) = nullptr;
};

std::span<const LowerRow> LowerTable();

/// The lowering of operators over three spatial dimensions if the graph has any, else nullptr. It
/// is among the extended operators, which these graphs load (bindings/README.md).
LowerFunction VolumeLowering(const Graph& graph);

/// Adds the step that evaluates the node by its reference.
void LowerByReference(PlanBuilder& builder, const Node& node);

}  // namespace requant
