// Decides whether a graph or plan uses the kernels for few bits, which are loaded on demand.
#pragma once

#include "ir/graph.h"
#include "plan/plan.h"

namespace requant {

/// Whether some operator may choose a kernel for few bits: it has packed weights, constant integer
/// weights of at most 16 different levels, or inputs clamped to as many. The check is cheap, since
/// most weights show more levels after a few elements.
bool MayUseLowBits(const Graph& graph);
/// Whether a step uses such a kernel and the kernels are not loaded yet.
bool LacksLowBits(const Plan& plan);

}  // namespace requant
