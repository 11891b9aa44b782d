// The part of the builder for values that grow from run to run (PlanOptions::state).
#include <algorithm>

#include "plan/builder.h"
#include "plan/lower/sequence/growing.h"

namespace requant {

int PlanBuilder::DenseCopy(const Value* value, int rows, Layout layout) {
  const int dense = NewSlot(*value, Layout::kPlain);
  kAddDenseCopy(*this, *node_, rows, dense);
  return layout == Layout::kPlain ? dense : Convert(value, dense, layout);
}

int PlanBuilder::Growing(const Value* value) const {
  if (options_.state.empty()) return -1;
  const auto found = places_.find(value);
  const int plain = found == places_.end() ? -1 : found->second.slots[0];
  return Exists(plain) && slot(plain).grows_along >= 0 ? plain : -1;
}

int PlanBuilder::Grow(const Value* past, const Value* present, int axis) {
  const auto& pairs = options_.state;
  const auto paired = std::find_if(pairs.begin(), pairs.end(), [&](const StatePair& pair) {
    return pair.past == past->name && pair.present == present->name;
  });
  const auto& outputs = graph().outputs();
  const auto output = std::find(outputs.begin(), outputs.end(), present);
  if (paired == pairs.end() || past->is_constant() || !graph().IsInput(past) ||
      past->consumers.size() != 1 || graph().IsOutput(past) ||
      std::count(outputs.begin(), outputs.end(), present) != 1) {
    return -1;
  }
  const int from = places_[past].slots[0];
  Slot& memory = plan_.slots[static_cast<size_t>(from)];
  const bool coded = paired->coded && memory.dtype == DType::kFloat32 &&
                     axis + 2 == static_cast<int>(memory.shape.size());
  memory.grows_along = axis;
  memory.coded = coded;
  const auto index = static_cast<int>(output - outputs.begin());
  const auto is_noted = [&](const GrowingOutput& growing) { return growing.output == index; };
  if (std::none_of(plan_.growing.begin(), plan_.growing.end(), is_noted)) {
    plan_.growing.push_back({index, memory.input, axis, coded});
  }
  Alias(present, from);
  const int made = places_[present].slots[0];
  plan_.slots[static_cast<size_t>(made)].grows_along = axis;
  plan_.slots[static_cast<size_t>(made)].coded = coded;
  return made;
}

}  // namespace requant
