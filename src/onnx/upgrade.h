#pragma once

#include "ir/graph.h"

namespace requant {

/// The oldest ONNX opset that ReadOnnx takes.
inline constexpr int kOldestOpset = 1;

/// Upgrades a graph of opset 1 to 6 to opset 7, in place; newer graphs stay as they are. Before
/// opset 6 it takes only operators that are the same in 7. What changed (onnx/defs, Changelog.md):
/// binary operators lost `broadcast` and `axis` for numpy's rules, Gemm lost `broadcast`, PRelu's
/// slopes are no longer aligned with the channels, BatchNormalization and Dropout lost `is_test`.
/// Throws kUnsupported, naming the node, where the old form has no equivalent.
void UpgradeOpset(Graph& graph);

}  // namespace requant
