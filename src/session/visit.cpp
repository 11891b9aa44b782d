// Runs a graph to look at its values: each in its place and layout, while it is in the cache.
#include <algorithm>

#include "session/session.h"

namespace requant {
namespace {

/// The number of steps that must run before output `slot` exists; 0: an input or a constant. Slots
/// are numbered in the order of planning, and slots that share memory have the same root.
size_t StepsBefore(const Plan& plan, int slot) {
  size_t found = 0;
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    for (const int output : plan.steps[i]->outputs) {
      const bool same_memory = plan.slots[static_cast<size_t>(output)].root ==
                               plan.slots[static_cast<size_t>(slot)].root;
      if (output <= slot && same_memory) found = i + 1;
    }
  }
  return found;
}

}  // namespace

void Session::Visit(const TensorMap& feeds, const Visitor& visit) {
  std::vector<const void*> inputs;
  Execution& execution = *Find(feeds, inputs).execution;
  if (execution.plan() == nullptr) {
    std::vector<Tensor> results;
    execution.Run(feeds, inputs, results);
    for (size_t i = 0; i < results.size(); ++i) visit(i, results[i], false);
    return;
  }
  const Plan& plan = *execution.plan();
  if (current_->visits.empty()) {
    current_->visits.resize(plan.steps.size() + 1);
    for (size_t i = 0; i < plan.outputs.size(); ++i) {
      current_->visits[StepsBefore(plan, plan.outputs[i])].push_back(i);
    }
  }
  const RunContext context(plan.slots, arena_.data(), inputs, options_.runner);
  for (size_t i = 0; i <= plan.steps.size(); ++i) {
    if (i > 0) plan.steps[i - 1]->Run(context);
    for (const size_t output : current_->visits[i]) {
      const Slot& place = context.slot(plan.outputs[output]);
      visit(output, Tensor::Unowned(place.dtype, place.shape, context.Write(plan.outputs[output])),
            place.layout == Layout::kChannelsLast);
    }
  }
}

}  // namespace requant
