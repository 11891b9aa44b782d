#include "session/session.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/str_cat.h"

namespace requant {
namespace {

constexpr size_t kKeptPlans = 4;

}  // namespace

Session::Session(std::shared_ptr<const Graph> graph, SessionOptions options)
    : graph_(std::move(graph)), options_(std::move(options)) {}

Session::Entry& Session::EntryFor(std::vector<Shape> shapes) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.shapes == shapes; });
  if (found != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, found);
  } else {
    Entry entry;
    std::unique_ptr<Graph> specialized = SpecializeGraph(*graph_, shapes);
    if (specialized) {
      entry.plan = CompilePlan(std::move(*specialized), options_.plan);
      for (const auto& step : entry.plan->steps) {
        entry.profile.push_back({step->name, step->op, step->kernel, 0, step->macs, 0});
      }
    }
    entry.shapes = std::move(shapes);
    entries_.push_front(std::move(entry));
    if (entries_.size() > kKeptPlans) entries_.pop_back();
  }
  current_ = &entries_.front();
  if (current_->plan && arena_.size() < current_->plan->arena_bytes) {
    arena_ = AlignedBuffer();  // frees first: the old and the new need not fit together
    arena_ = AlignedBuffer(current_->plan->arena_bytes);
  }
  return *current_;
}

bool Session::Prepare() {
  std::vector<Shape> shapes;
  for (const Value* input : graph_->inputs()) {
    if (input->is_constant()) continue;
    if (!input->type.IsStatic()) return false;
    shapes.push_back(input->type.StaticShape());
  }
  return EntryFor(std::move(shapes)).plan != nullptr;
}

std::vector<Tensor> Session::Run(const TensorMap& feeds) {
  std::vector<Shape> shapes;
  std::vector<const void*> inputs;
  std::map<std::string, int64_t> symbols;
  for (const Value* input : graph_->inputs()) {
    if (input->is_constant()) continue;
    const auto feed = feeds.find(input->name);
    if (feed == feeds.end()) {
      Fail(ErrorCode::kInvalidArgument, StrCat("input '", input->name, "' is not fed"),
           {.value = input->name, .hint = "pass a tensor for every input name"});
    }
    CheckFeed(*input, feed->second, symbols);
    shapes.push_back(feed->second.shape());
    inputs.push_back(feed->second.raw());
  }
  if (feeds.size() != inputs.size()) {
    for (const auto& [name, tensor] : feeds) {
      const Value* value = graph_->FindValue(name);
      if (value == nullptr || !graph_->IsInput(value) || value->is_constant()) {
        Fail(ErrorCode::kInvalidArgument, StrCat("the model has no input '", name, "'"),
             {.value = name, .hint = "see inputNames"});
      }
    }
  }
  Entry& entry = EntryFor(std::move(shapes));
  if (entry.plan == nullptr) {
    InterpretOptions options;
    options.requantize = options_.plan.requantize;
    return Interpret(*graph_, feeds, options);
  }
  const Plan& plan = *entry.plan;
  const RunContext context(plan.slots, arena_.data(), std::move(inputs));
  const bool timed = options_.profile && options_.now != nullptr;
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const double start = timed ? options_.now() : 0;
    plan.steps[i]->Run(context);
    if (timed) {
      entry.profile[i].milliseconds += options_.now() - start;
      ++entry.profile[i].runs;
    }
  }
  std::vector<Tensor> results;
  for (const int slot : plan.outputs) {
    const Slot& place = context.slot(slot);
    Tensor out(place.dtype, place.shape);
    if (place.bytes > 0) std::memcpy(out.raw(), context.Read(slot), place.bytes);
    results.push_back(std::move(out));
  }
  return results;
}

SessionMemory Session::memory() const {
  const Plan* current = plan();
  if (current == nullptr) return {};
  return {current->arena_bytes, current->arena_lower_bound, current->packed_bytes};
}

std::vector<StepProfile> Session::Profile() const {
  return current_ ? current_->profile : std::vector<StepProfile>{};
}

}  // namespace requant
