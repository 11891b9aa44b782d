// DeadCodeElimination
// Before: nodes whose outputs reach no graph output; masks and indices that nobody reads; constants
//   without a reader
// After:  the graph without them. Graph inputs stay even when nothing reads them, since they are
//   the interface.
// Conditions: no graph output can be reached; every operator is a function of its inputs alone.
// Formula: the nodes that stay are the smallest set that has the producers of all graph outputs and
//   the producers of all its members' inputs.
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace requant {

bool DeadCodeElimination(Graph& graph, PassContext&) { return RemoveDeadNodes(graph); }

}  // namespace requant
