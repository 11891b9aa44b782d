#pragma once

#include "plan/placement.h"
#include "plan/plan.h"

namespace requant {

/// Computes lifetimes, lets in-place steps reuse their input's memory, and gives every arena slot
/// an offset such that slots alive at the same time never overlap. Sets arena_bytes and
/// arena_lower_bound. With keep_outputs outputs live to the end, else only until their last use.
/// `tries` limits the search for less memory (PlaceLifetimes).
void LayOutArena(Plan& plan, bool keep_outputs = true, int tries = kMostPlacements);

}  // namespace requant
