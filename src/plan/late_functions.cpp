// Not where it is called: a compiler that sees what the constant is would call the function by
// name, which the main module cannot do with what is among the rarer operators
// (bindings/README.md).
#include "plan/pack_activations.h"

namespace requant {

void (*const kPackActivations)(Plan& plan, const PlanOptions& options) = PackActivations;

}  // namespace requant
