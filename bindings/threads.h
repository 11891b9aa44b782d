#pragma once

#include <string>

#include "api/requant.h"

namespace requant::bindings {

/// The threads of this core (bindings/README.md): only the caller until UseThreads.
ParallelRunner* Threads();
/// Makes the core use `count` threads from now on, the caller included.
void UseThreads(int count);
/// Names of the kernels that threads run, separated by spaces, in the order of their numbers.
std::string ThreadKernels();

}  // namespace requant::bindings
