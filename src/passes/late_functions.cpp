// A file of its own, so that no compiler sees what is called (api/late_functions.cpp).
#include "passes/normalization.h"

namespace requant {

bool (*const kSimplifyNormalization)(Graph& graph, Node* node) = SimplifyNormalization;

}  // namespace requant
