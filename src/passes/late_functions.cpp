// Defines the pointer in a file of its own, so that no compiler sees its value
// (api/late_functions.cpp).
#include "passes/match/normalization.h"

namespace requant {

bool (*const kSimplifyNormalization)(Graph& graph, Node* node) = SimplifyNormalization;

}  // namespace requant
