#pragma once

#include "ir/graph.h"

namespace requant {

/// Structural soundness: links agree in both directions, names are unique, every input is produced
/// before it is used, no value has two definitions, constants agree with their types, graph inputs
/// and outputs exist, dims are not negative. Throws kInvalidModel naming the first offence.
void VerifyGraph(const Graph& graph);

}  // namespace requant
