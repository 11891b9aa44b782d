// Reports forced kernels that do not run.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/late_function.h"
#include "plan/plan.h"

namespace requant {

/// The row that runs, by family and node.
using KernelChoices = std::map<std::string, std::map<std::string, std::string>, std::less<>>;

/// The forced kernels that do not run, or not everywhere, and what runs there instead; one line
/// each.
std::vector<std::string> UnheededForces(const std::vector<ForcedKernel>& forces,
                                        const KernelChoices& choices);

/// The extended operators, and so this function, are loaded where kernels are forced.
extern const LateFunction<decltype(UnheededForces)> kUnheededForces;

}  // namespace requant
