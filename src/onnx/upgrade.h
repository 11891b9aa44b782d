#pragma once

#include "base/late_function.h"
#include "ir/graph.h"

namespace requant {

/// The oldest ONNX opset that ReadOnnx takes, and the oldest that graphs have afterwards.
inline constexpr int kOldestOpset = 1;
inline constexpr int kOldestKept = 7;

/// Upgrades a graph of opset 1 to 6 to opset 7, in place; newer graphs stay as they are. Operators
/// whose form changed (onnx docs/Changelog.md) get the form of opset 7. Throws kUnsupported, naming
/// the node, where the old form has no equivalent: it depends on a value of the run or on a rank
/// that is not known, or is one of training.
void UpgradeOpset(Graph& graph);
extern const LateFunction<decltype(UpgradeOpset)> kUpgradeOpset;

}  // namespace requant
