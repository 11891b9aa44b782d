#include "plan/arena.h"

#include <algorithm>

#include "base/checked_math.h"
#include "base/sort.h"

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

// An elementwise step may write over an input that dies there.
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
    // Another input of the step that shares the memory would be overwritten too early.
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

struct Placement {
  size_t bytes = 0;    // the peak
  size_t highest = 0;  // the slot that reaches it, as its position in the order
  std::vector<size_t> offsets;
};

/// Gives the slots offsets in this order, each the lowest gap among those it overlaps in time.
Placement Place(const Plan& plan, const std::vector<size_t>& order) {
  Placement out;
  out.offsets.resize(order.size());
  std::vector<size_t> placed;  // positions in `order`, sorted by offset
  for (size_t i = 0; i < order.size(); ++i) {
    const Slot& slot = plan.slots[order[i]];
    const size_t bytes = CheckedAlign(slot.bytes, AlignedBuffer::kAlignment);
    size_t offset = 0;
    for (const size_t j : placed) {
      const Slot& other = plan.slots[order[j]];
      if (other.last_step < slot.first_step || slot.last_step < other.first_step) continue;
      if (CheckedAdd(offset, bytes) <= out.offsets[j]) break;
      offset = std::max(
          offset, CheckedAlign(CheckedAdd(out.offsets[j], other.bytes), AlignedBuffer::kAlignment));
    }
    out.offsets[i] = offset;
    if (CheckedAdd(offset, bytes) > out.bytes) {
      out.bytes = offset + bytes;
      out.highest = i;
    }
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), i,
                         [&out](size_t a, size_t b) { return out.offsets[a] < out.offsets[b]; }),
        i);
  }
  return out;
}

/// AnnotateUsedMemory: what is alive while each step runs, the last one being the graph outputs
/// afterwards. Returns the peak.
size_t AnnotateUsedMemory(Plan& plan, const std::vector<size_t>& order) {
  size_t bound = 0;
  for (int step = 0; step <= static_cast<int>(plan.steps.size()); ++step) {
    size_t live = 0;
    for (const size_t index : order) {
      const Slot& slot = plan.slots[index];
      if (slot.first_step <= step && step <= slot.last_step) {
        live += CheckedAlign(slot.bytes, AlignedBuffer::kAlignment);
      }
    }
    plan.used_memory.push_back(live);
    bound = std::max(bound, live);
  }
  return bound;
}

}  // namespace

void LayOutArena(Plan& plan, bool keep_outputs) {
  ComputeLifetimes(plan, keep_outputs);
  MergeInPlace(plan);
  std::vector<size_t> order;
  for (size_t i = 0; i < plan.slots.size(); ++i) {
    if (IsRoot(plan, i)) order.push_back(i);
  }
  plan.arena_lower_bound = AnnotateUsedMemory(plan, order);
  // Greedy by size (Pisarchyk & Lee, "Efficient Memory Management for Deep Neural Net Inference",
  // 2020) to begin with. Then whatever sticks out at the top is placed earlier, a bounded number of
  // times; the best order wins.
  StableSort(order,
             [&plan](size_t a, size_t b) { return plan.slots[a].bytes > plan.slots[b].bytes; });
  constexpr int kRounds = 100;
  std::vector<size_t> best_order = order;
  Placement best = Place(plan, order);
  for (int round = 0; round < kRounds && best.bytes > plan.arena_lower_bound; ++round) {
    const Placement current = Place(plan, order);
    if (current.bytes < best.bytes) {
      best = current;
      best_order = order;
    }
    if (current.highest == 0) break;
    const auto top = order.begin() + static_cast<ptrdiff_t>(current.highest);
    std::rotate(order.begin(), top, top + 1);
  }
  for (size_t i = 0; i < best_order.size(); ++i) plan.slots[best_order[i]].offset = best.offsets[i];
  plan.arena_bytes = best.bytes;
}

}  // namespace requant
