// The table of operators with fast paths. Adding one takes plan/lower/<op>.cpp and a line of
// lowerings.inc. An operator without a row, or whose rows decline, runs by its reference; the plan
// shows that as kernel "reference".
#pragma once

#include <span>

#include "base/late_function.h"
#include "plan/builder.h"

namespace requant {

using LowerFunction = bool (*)(PlanBuilder& builder, const Node& node);

struct LowerRow {
  const char* op;
  const char* domain;
  /// Adds the steps that compute the node's outputs, or returns false and adds none.
  LowerFunction lower;
  /// Whether the code of `lower` is among the extended operators while its operator is not: until
  /// they are loaded, the row is skipped.
  bool late;
  /// Returns whether `lower` is for this node; nullptr: it is for all.
  bool (*fits)(const Node& node);
};

std::span<const LowerRow> LowerTable();

/// Whether the graph has operators over three spatial dimensions, whose lowering these graphs load.
bool HasVolumes(const Graph& graph);
extern const LateFunction<bool(PlanBuilder& builder, const Node& node)> kLowerVolume;

/// Adds the step that evaluates the node by its reference.
void LowerByReference(PlanBuilder& builder, const Node& node);

}  // namespace requant
