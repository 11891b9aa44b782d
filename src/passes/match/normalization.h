#pragma once

#include "base/late_function.h"
#include "ir/graph.h"

namespace requant {

/// Rewrites InstanceNormalization, GroupNormalization and LpNormalization to operators with fast
/// kernels (normalization.cpp).
bool SimplifyNormalization(Graph& graph, Node* node);
extern const LateFunction<decltype(SimplifyNormalization)> kSimplifyNormalization;

}  // namespace requant
