// Not where it is called: a compiler that sees what the constant is would call the function by
// name, which the main module cannot do with what is among the rarer operators
// (bindings/README.md).
#include "plan/pack_activations.h"
#include "plan/unheeded_forces.h"

namespace requant {

void (*const kPackActivations)(Plan& plan, const PlanOptions& options) = PackActivations;
std::vector<std::string> (*const kUnheededForces)(const std::vector<ForcedKernel>& forces,
                                                  const KernelChoices& choices) = UnheededForces;

}  // namespace requant
