// A plan as bytes and back: what is loaded needs no model, no passes and no packing. The weights
// are used where they lie in the file.
//
//   fields     inputs and outputs, slots, steps (plan/archive.h), the nodes that run by reference
//   blobs      packed weights and constants (plan/file.h)
//
// A plan is a cache, not an exchange format: it is refused by any other build of the engine.
#pragma once

#include <memory>
#include <vector>

#include "plan/file.h"
#include "plan/plan.h"

namespace requant {

struct LoadedPlan {
  std::shared_ptr<const Plan> plan;
  std::shared_ptr<const Graph> graph;  // inputs and outputs only
};

/// `graph` has the inputs and outputs that the plan was made for.
std::vector<uint8_t> SavePlan(const Plan& plan, const Graph& graph);

/// The plan refers to the file's bytes. Throws as OpenSaved; never reads outside of the file.
/// (Whoever makes a checksum for fields of their own choice gets what they deserve: load plans that
/// you saved.)
LoadedPlan LoadPlan(SavedFile file);

}  // namespace requant
