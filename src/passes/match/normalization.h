#pragma once

#include "ir/graph.h"

namespace requant {

/// Rewrites InstanceNormalization, GroupNormalization and LpNormalization to operators with fast
/// kernels (normalization.cpp).
bool SimplifyNormalization(Graph& graph, Node* node);
/// Points to SimplifyNormalization, which is among the extended operators, as the three operators
/// are.
extern bool (*const kSimplifyNormalization)(Graph& graph, Node* node);

}  // namespace requant
