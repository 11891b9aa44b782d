// Whether a graph or plan wants the kernels for few bits, which are loaded on demand.
#pragma once

#include "ir/graph.h"
#include "plan/plan.h"

namespace requant {

/// Whether a kernel for few bits may be chosen for some operator: one with packed weights, or with
/// constant integer weights of at most 16 different levels, or inputs clamped to so many. Cheap:
/// most weights tell after a few elements.
bool MayUseLowBits(const Graph& graph);
/// Whether a step has such a kernel and it is not loaded yet.
bool LacksLowBits(const Plan& plan);

}  // namespace requant
