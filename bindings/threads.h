#pragma once

#include <string>

#include "api/requant.h"

namespace requant::bindings {

/// The threads of this core (bindings/README.md); one until UseThreads.
ParallelRunner* Threads();
/// From now on there are so many, the caller included.
void UseThreads(int count);
/// Names of the kernels that threads run, separated by spaces, in the order of their numbers.
std::string ThreadKernels();

}  // namespace requant::bindings
