// Kernels that were forced and do not run.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace requant {

/// By family and node: the row that runs.
using KernelChoices = std::map<std::string, std::map<std::string, std::string>, std::less<>>;

/// Which forced kernels do not run, or not everywhere, and what runs there instead; a line each.
std::vector<std::string> UnheededForces(const std::vector<ForcedKernel>& forces,
                                        const KernelChoices& choices);

/// Called through a pointer: the function is among the rarer operators, which are loaded where
/// kernels are forced.
extern std::vector<std::string> (*const kUnheededForces)(const std::vector<ForcedKernel>& forces,
                                                         const KernelChoices& choices);

}  // namespace requant
