#include "plan/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace requant {
namespace {

class NoStep : public Step {
 public:
  void Run(const RunContext&) const override {}
  StepKind kind() const override { return {}; }
  void Fields(PlanArchive&) override {}
};

// A random straight-line program: every step reads some earlier slots and writes a new one.
Plan RandomPlan(std::mt19937& random, int steps) {
  Plan plan;
  const auto add_slot = [&] {
    Slot slot;
    slot.bytes = 1 + random() % 5000;
    slot.root = static_cast<int>(plan.slots.size());
    plan.slots.push_back(slot);
    return slot.root;
  };
  add_slot();
  plan.slots[0].home = Slot::Home::kInput;
  for (int i = 0; i < steps; ++i) {
    auto step = std::make_unique<NoStep>();
    for (size_t k = 0; k < 1 + random() % 3; ++k) {
      step->inputs.push_back(static_cast<int>(random() % plan.slots.size()));
    }
    step->outputs.push_back(add_slot());
    step->may_overwrite = random() % 2 == 0;
    if (random() % 3 == 0) {
      const int scratch = add_slot();
      step->workspace = scratch;
    }
    plan.steps.push_back(std::move(step));
  }
  plan.outputs.push_back(plan.steps.back()->outputs[0]);
  return plan;
}

TEST(Arena, LiveSlotsNeverOverlap) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    Plan plan = RandomPlan(random, 1 + static_cast<int>(random() % 40));
    LayOutArena(plan);
    ASSERT_EQ(plan.used_memory.size(), plan.steps.size() + 1);
    EXPECT_EQ(*std::max_element(plan.used_memory.begin(), plan.used_memory.end()),
              plan.arena_lower_bound);
    for (size_t i = 0; i < plan.slots.size(); ++i) {
      const Slot& a = plan.slots[i];
      if (a.root != static_cast<int>(i) || a.home != Slot::Home::kArena || a.first_step < 0) {
        continue;
      }
      EXPECT_LE(a.offset + a.bytes, plan.arena_bytes);
      EXPECT_EQ(a.offset % AlignedBuffer::kAlignment, 0U);
      for (size_t j = i + 1; j < plan.slots.size(); ++j) {
        const Slot& b = plan.slots[j];
        if (b.root != static_cast<int>(j) || b.home != Slot::Home::kArena || b.first_step < 0 ||
            b.last_step < a.first_step || a.last_step < b.first_step) {
          continue;
        }
        EXPECT_TRUE(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset);
      }
    }
    EXPECT_GE(plan.arena_bytes, plan.arena_lower_bound);
  }
}

TEST(Arena, AnOverwritableInputThatDiesIsReused) {
  Plan plan;
  plan.slots.resize(3);
  for (int i = 0; i < 3; ++i) {
    plan.slots[static_cast<size_t>(i)].bytes = 256;
    plan.slots[static_cast<size_t>(i)].root = i;
  }
  plan.slots[0].home = Slot::Home::kInput;
  for (int i = 0; i < 2; ++i) {
    auto step = std::make_unique<NoStep>();
    step->inputs = {i};
    step->outputs = {i + 1};
    step->may_overwrite = true;
    plan.steps.push_back(std::move(step));
  }
  plan.outputs = {2};
  LayOutArena(plan);
  EXPECT_EQ(plan.slots[2].root, 1);  // the second step works in place; the input is never written
  EXPECT_EQ(plan.arena_bytes, 256U);
}

}  // namespace
}  // namespace requant
