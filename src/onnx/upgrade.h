#pragma once

#include "ir/graph.h"

namespace requant {

/// The oldest ONNX opset that can be read.
inline constexpr int kOldestOpset = 1;

/// Opset 1 to 6 -> 7, in place; newer graphs are left alone. Before 6 only operators that are the
/// same in 7 are taken. What changed (onnx/defs, Changelog.md):
/// binary operators lost `broadcast` and `axis` for numpy's rules, Gemm lost `broadcast`, PRelu's
/// slopes are no longer aligned with the channels, BatchNormalization and Dropout lost `is_test`.
/// Throws kUnsupported where the old form has no equivalent, naming the node.
void UpgradeOpset(Graph& graph);

}  // namespace requant
