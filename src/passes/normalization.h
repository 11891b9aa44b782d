#pragma once

#include "ir/graph.h"

namespace requant {

/// InstanceNormalization, GroupNormalization and LpNormalization by operators with fast kernels;
/// see normalization.cpp.
bool SimplifyNormalization(Graph& graph, Node* node);
/// Through which it is called: it is among the rarer operators, as those three are.
extern bool (*const kSimplifyNormalization)(Graph& graph, Node* node);

}  // namespace requant
