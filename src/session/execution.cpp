#include "session/execution.h"

#include <cstring>
#include <string>
#include <utility>

#include "plan/low_bits.h"
#include "plan/saved/save.h"

namespace requant {

PlanExecution::PlanExecution(std::shared_ptr<const Plan> plan,
                             std::shared_ptr<const Graph> interface, const SessionOptions& options,
                             AlignedBuffer& arena)
    : plan_(std::move(plan)), interface_(std::move(interface)), options_(options), arena_(arena) {}

void PlanExecution::Enter() {
  if (arena_.size() >= plan_->arena_bytes) return;
  arena_ = AlignedBuffer();  // frees the old arena first, since both need not fit together
  arena_ = AlignedBuffer(plan_->arena_bytes);
}

void PlanExecution::Run(const TensorMap&, std::span<const void* const> inputs,
                        std::vector<Tensor>& results, const RunDetails& details) {
  const Plan& plan = *plan_;
  const RunContext context(plan.slots, arena_.data(), inputs, options_.runner, details.room);
  const bool timed = options_.profile && options_.now != nullptr;
  if (timed) measured_.resize(plan.steps.size());
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const double start = timed ? options_.now() : 0;
    plan.steps[i]->Run(context);
    if (timed) {
      measured_[i].milliseconds += options_.now() - start;
      ++measured_[i].runs;
    }
  }
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    const int slot = plan.outputs[i];
    const Slot& place = context.slot(slot);
    const bool unwanted = i < details.unwanted.size() && details.unwanted[i] != 0;
    if (place.grows_along >= 0 || unwanted) {
      if (i == results.size()) results.emplace_back();
      continue;
    }
    if (i == results.size()) results.emplace_back(place.dtype, place.shape);
    if (place.bytes > 0) std::memcpy(results[i].raw(), context.Read(slot), place.bytes);
  }
}

std::vector<Tensor> PlanExecution::MakeResults() const {
  std::vector<Tensor> results;
  for (const int slot : plan_->outputs) {
    const Slot& place = plan_->slots[static_cast<size_t>(slot)];
    results.emplace_back(place.dtype, place.shape);
  }
  return results;
}

std::vector<uint8_t> PlanExecution::Save(const Graph& graph,
                                         const std::vector<Shape>& shapes) const {
  // The plan's shapes replace those that the graph leaves open.
  Graph made;
  size_t next = 0;
  for (const Value* input : graph.inputs()) {
    if (input->is_constant()) continue;
    made.AddInput(made.AddValue(input->name, {input->type.dtype, ToSymbolic(shapes[next++])}));
  }
  for (size_t i = 0; i < plan_->outputs.size(); ++i) {
    const Slot& slot = plan_->slots[static_cast<size_t>(plan_->outputs[i])];
    const std::string& name = graph.outputs()[i]->name;
    Value* value = made.FindValue(name);
    if (value == nullptr) value = made.AddValue(name, {slot.dtype, ToSymbolic(slot.shape)});
    made.AddOutput(value);
  }
  return SavePlan(*plan_, made);
}

SessionMemory PlanExecution::memory() const {
  return {plan_->arena_bytes, plan_->arena_lower_bound, plan_->packed_bytes};
}

std::vector<StepProfile> PlanExecution::Profile() const {
  std::vector<StepProfile> profile;
  for (size_t i = 0; i < plan_->steps.size(); ++i) {
    const Step& step = *plan_->steps[i];
    const Measured measured = i < measured_.size() ? measured_[i] : Measured();
    profile.push_back(
        {step.name, step.op, step.kernel, measured.milliseconds, step.macs, measured.runs});
  }
  return profile;
}

bool PlanExecution::LacksLowBits() const { return requant::LacksLowBits(*plan_); }

}  // namespace requant
