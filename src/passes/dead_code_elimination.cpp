// DeadCodeElimination
// Before: nodes whose outputs reach no graph output; masks and indices nobody reads; constants
//   without a reader.
// After:  without them. Graph inputs stay even when nothing reads them: they are the interface.
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace requant {

bool DeadCodeElimination(Graph& graph, PassContext&) { return RemoveDeadNodes(graph); }

}  // namespace requant
