// Pointers to functions among the extended operators. They stand in a file of their own: a compiler
// that sees a pointer's value at the call would call the function by name, which the main module
// cannot do (bindings/README.md).
#include "plan/pack_activations.h"
#include "plan/unheeded_forces.h"

namespace requant {

void (*const kPackActivations)(Plan& plan, const PlanOptions& options) = PackActivations;
std::vector<std::string> (*const kUnheededForces)(const std::vector<ForcedKernel>& forces,
                                                  const KernelChoices& choices) = UnheededForces;

}  // namespace requant
