#include "plan/arena.h"

#include <algorithm>

namespace requant {
namespace {

Slot& Root(Plan& plan, int slot) {
  return plan.slots[static_cast<size_t>(plan.slots[static_cast<size_t>(slot)].root)];
}

void Touch(Plan& plan, int slot, int step) {
  Slot& root = Root(plan, slot);
  if (root.first_step < 0) root.first_step = step;
  root.last_step = std::max(root.last_step, step);
}

void ComputeLifetimes(Plan& plan, bool keep_outputs) {
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = *plan.steps[i];
    const int index = static_cast<int>(i);
    for (const int slot : step.inputs) Touch(plan, slot, index);
    for (const int slot : step.outputs) Touch(plan, slot, index);
    if (step.workspace >= 0) Touch(plan, step.workspace, index);
  }
  if (!keep_outputs) return;
  for (const int slot : plan.outputs) Touch(plan, slot, static_cast<int>(plan.steps.size()));
}

// Lets an elementwise step overwrite an input whose lifetime ends there.
void MergeInPlace(Plan& plan) {
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = *plan.steps[i];
    if (!step.may_overwrite || step.inputs.empty() || step.outputs.size() != 1) continue;
    const int index = static_cast<int>(i);
    const int from = plan.slots[static_cast<size_t>(step.inputs[0])].root;
    const int to = plan.slots[static_cast<size_t>(step.outputs[0])].root;
    Slot& source = plan.slots[static_cast<size_t>(from)];
    Slot& target = plan.slots[static_cast<size_t>(to)];
    if (from == to || source.home != Slot::Home::kArena || target.home != Slot::Home::kArena ||
        source.bytes < target.bytes || source.last_step != index || target.first_step != index) {
      continue;
    }
    // The memory must not be shared with another input of the step, which would be overwritten too
    // early.
    const auto shares = [&](int slot) {
      return plan.slots[static_cast<size_t>(slot)].root == from;
    };
    if (std::count_if(step.inputs.begin(), step.inputs.end(), shares) > 1) continue;
    source.last_step = target.last_step;
    for (Slot& slot : plan.slots) {
      if (slot.root == to) slot.root = from;
    }
  }
}

bool IsRoot(const Plan& plan, size_t index) {
  const Slot& slot = plan.slots[index];
  return slot.root == static_cast<int>(index) && slot.home == Slot::Home::kArena &&
         slot.first_step >= 0;
}

}  // namespace

void LayOutArena(Plan& plan, bool keep_outputs, int tries) {
  ComputeLifetimes(plan, keep_outputs);
  MergeInPlace(plan);
  std::vector<size_t> roots;
  std::vector<Lifetime> lifetimes;
  for (size_t i = 0; i < plan.slots.size(); ++i) {
    if (!IsRoot(plan, i)) continue;
    const Slot& slot = plan.slots[i];
    roots.push_back(i);
    lifetimes.push_back({slot.bytes, slot.first_step, slot.last_step});
  }
  // The moments are the steps and, last, the time after them.
  const int moments = static_cast<int>(plan.steps.size()) + 1;
  plan.arena_lower_bound =
      PeakBytes(lifetimes, moments, AlignedBuffer::kAlignment, &plan.used_memory);
  const Placement placement =
      PlaceLifetimes(lifetimes, AlignedBuffer::kAlignment, plan.arena_lower_bound, tries);
  for (size_t i = 0; i < roots.size(); ++i) plan.slots[roots[i]].offset = placement.offsets[i];
  plan.arena_bytes = placement.bytes;
}

}  // namespace requant
