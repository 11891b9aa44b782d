// Not where it is used: the compiler would call the function itself, which is among the tools.
#include "api/prepare.h"

namespace requant {

void (*const kPrepareBodies)(Graph& graph) = PrepareBodies;

}  // namespace requant
