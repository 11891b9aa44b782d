#pragma once

#include "plan/plan.h"

namespace requant {

/// Computes lifetimes, lets in-place steps reuse their input, and gives every arena slot an offset
/// so that slots alive at the same time never overlap. Fills arena_bytes and arena_lower_bound.
/// Outputs live to the end, or else like any other value.
void LayOutArena(Plan& plan, bool keep_outputs = true);

}  // namespace requant
