#pragma once

#include "ir/graph.h"

namespace requant {

/// Checks that a graph is sound: links agree in both directions, names are unique, every input is
/// produced before it is used, no value has two definitions, constants agree with their types,
/// graph inputs and outputs exist, and dims are not negative. Throws kInvalidModel naming the first
/// violation.
void VerifyGraph(const Graph& graph);

}  // namespace requant
