// Saves and loads plans. A loaded plan needs no model, no passes and no packing; it uses the
// weights where they lie in the file.
//
//   fields     inputs and outputs, slots, steps (plan/archive.h), the nodes that run by reference
//   blobs      packed weights and constants (plan/saved/file.h)
//
// A plan is a cache, not an exchange format: every other build of the engine refuses it.
#pragma once

#include <memory>
#include <vector>

#include "plan/plan.h"
#include "plan/saved/file.h"

namespace requant {

struct LoadedPlan {
  std::shared_ptr<const Plan> plan;
  std::shared_ptr<const Graph> graph;  // inputs and outputs only
};

/// Saves a plan; `graph` has the inputs and outputs that it was made for.
std::vector<uint8_t> SavePlan(const Plan& plan, const Graph& graph);

/// Loads a plan, which refers to the file's bytes. Throws as OpenSaved does and never reads outside
/// the file. (A file with a valid checksum and forged fields is not detected: load only plans that
/// you saved.)
LoadedPlan LoadPlan(SavedFile file);

}  // namespace requant
