#include "session/session.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/operators.h"
#include "base/str_cat.h"
#include "plan/low_bits.h"
#include "plan/save.h"

namespace requant {
namespace {

constexpr size_t kKeptPlans = 4;

}  // namespace

Session::Session(std::shared_ptr<const Graph> graph, SessionOptions options)
    : graph_(std::move(graph)), options_(std::move(options)) {
  const int most = options_.runner ? options_.runner->threads() : 1;
  int& threads = options_.plan.threads;
  threads = threads > 0 ? std::min(threads, most) : most;
}

Session::Session(const SharedBytes& saved_plan, SessionOptions options)
    : Session(nullptr, std::move(options)) {
  graph_ = Load(saved_plan);
  Enter(entries_.front());
}

std::shared_ptr<const Graph> Session::Load(const SharedBytes& saved_plan) {
  SavedFile file = OpenSaved(saved_plan, options_.plan.threads);
  Entry& entry = entries_.emplace_back();
  std::shared_ptr<const Graph> interface;
  if (file.kind == SavedKind::kProgram) {
    if (!file.operators || !OperatorsLoaded()) DamagedPlan("its header does not fit");
    entry.program = kLoadProgram(std::move(file), options_);
    interface = {entry.program, &entry.program->graph()};
  } else {
    LoadedPlan loaded = LoadPlan(std::move(file));
    interface = std::move(loaded.graph);
    entry.plan = std::move(loaded.plan);
  }
  for (const Value* input : interface->inputs()) entry.shapes.push_back(input->type.StaticShape());
  return interface;
}

std::vector<uint8_t> Session::Save() const {
  if (current_ == nullptr) {
    Fail(ErrorCode::kUnsupported, "there is no plan to save",
         {.hint = "run the session once, so that the shapes are known"});
  }
  return Save(*current_);
}

std::vector<uint8_t> Session::Save(const Entry& entry) const {
  if (entry.program) return entry.program->Save();
  const Plan& plan = *entry.plan;
  // The plan's shapes replace those that the graph leaves open.
  Graph interface;
  size_t next = 0;
  for (const Value* input : graph_->inputs()) {
    if (input->is_constant()) continue;
    interface.AddInput(
        interface.AddValue(input->name, {input->type.dtype, ToSymbolic(entry.shapes[next++])}));
  }
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    const Slot& slot = plan.slots[static_cast<size_t>(plan.outputs[i])];
    const std::string& name = graph_->outputs()[i]->name;
    Value* value = interface.FindValue(name);
    if (value == nullptr) value = interface.AddValue(name, {slot.dtype, ToSymbolic(slot.shape)});
    interface.AddOutput(value);
  }
  return SavePlan(plan, interface);
}

void Session::Enter(Entry& entry) {
  current_ = nullptr;  // while there is no memory for it
  if (entry.plan) {
    if (entry.profile.empty()) {
      std::vector<StepProfile> profile;
      for (const auto& step : entry.plan->steps) {
        profile.push_back({step->name, step->op, step->kernel, 0, step->macs, 0});
      }
      entry.profile = std::move(profile);
    }
    if (arena_.size() < entry.plan->arena_bytes) {
      arena_ = AlignedBuffer();  // frees the old arena first, since both need not fit together
      arena_ = AlignedBuffer(entry.plan->arena_bytes);
    }
  }
  current_ = &entry;
}

Session::Entry& Session::EntryFor(std::vector<Shape> shapes, bool only) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.shapes == shapes; });
  if (found != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, found);
  } else {
    Entry entry;
    // With a single plan the session keeps no graph beside it.
    std::shared_ptr<const Graph> source = graph_;
    if (only && IsStatic(*graph_)) graph_.reset();
    std::unique_ptr<Graph> specialized = SpecializeGraph(std::move(source), shapes);
    if (IsStatic(*specialized)) {
      if (only) graph_.reset();
      entry.plan = CompilePlan(std::move(*specialized), options_.plan);
    } else {
      SessionOptions options = options_;
      options.plan.visit = false;  // a part's outputs are visited when all parts have run
      entry.program = std::make_shared<Program>(*specialized, options);
      if (only) graph_ = {entry.program, &entry.program->graph()};
    }
    entry.shapes = std::move(shapes);
    entries_.push_front(std::move(entry));
    if (entries_.size() > kKeptPlans) entries_.pop_back();
  }
  Enter(entries_.front());
  return *current_;
}

bool Session::Prepare() {
  std::vector<Shape> shapes;
  for (const Value* input : graph_->inputs()) {
    if (input->is_constant()) continue;
    if (!input->type.IsStatic()) return false;
    shapes.push_back(input->type.StaticShape());
  }
  const std::shared_ptr<const Plan> plan = EntryFor(std::move(shapes), true).plan;
  if (plan) graph_ = {plan, plan->graph.get()};
  return plan != nullptr;
}

Session::Entry& Session::Find(const TensorMap& feeds, std::vector<const void*>& inputs) {
  std::vector<Shape> shapes;
  std::map<std::string, int64_t> symbols;
  if (!graph_) Fail(ErrorCode::kInternal, "the session could not be planned");
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
  return EntryFor(std::move(shapes));
}

std::vector<Tensor> Session::Run(const TensorMap& feeds) {
  std::vector<const void*> inputs;
  if (Entry& entry = Find(feeds, inputs); entry.program) return entry.program->Run(feeds);
  std::vector<Tensor> results;
  Execute(inputs, results);
  return results;
}

BoundRun Session::Bind(const TensorMap& feeds) {
  BoundRun bound;
  bound.feeds = feeds;
  const Entry& entry = Find(feeds, bound.inputs);
  bound.plan = entry.plan;
  if (entry.program) {
    for (const Value* output : entry.program->graph().outputs()) {
      if (!output->type.IsStatic()) {
        Fail(ErrorCode::kUnsupported,
             StrCat("the shape of '", output->name, "' depends on data, so it cannot be bound"),
             {.value = output->name, .hint = "use run()"});
      }
      bound.outputs.emplace_back(output->type.dtype, output->type.StaticShape());
    }
    bound.program = entry.program;
    return bound;
  }
  for (const int slot : bound.plan->outputs) {
    const Slot& place = bound.plan->slots[static_cast<size_t>(slot)];
    bound.outputs.emplace_back(place.dtype, place.shape);
  }
  return bound;
}

void Session::Run(const BoundRun& bound) {
  if (bound.program) {
    const std::vector<Tensor> results = bound.program->Run(bound.feeds);
    for (size_t i = 0; i < results.size(); ++i) {
      const Tensor& to = bound.outputs[i];
      if (results[i].shape() != to.shape() || results[i].dtype() != to.dtype()) {
        Fail(ErrorCode::kShapeMismatch, "an output has not the shape that its operators say");
      }
      if (to.bytes() > 0) std::memcpy(const_cast<void*>(to.raw()), results[i].raw(), to.bytes());
    }
    return;
  }
  if (current_ == nullptr || current_->plan != bound.plan) {
    const auto found = std::find_if(entries_.begin(), entries_.end(),
                                    [&](const Entry& entry) { return entry.plan == bound.plan; });
    if (found != entries_.end()) {
      entries_.splice(entries_.begin(), entries_, found);
    } else {
      // The bound plan's entry has been evicted by other shapes, so it gets a new one.
      Entry& entry = entries_.emplace_front();
      entry.plan = bound.plan;
      const Plan& plan = *bound.plan;
      entry.shapes.resize(bound.inputs.size());
      for (const Slot& slot : plan.slots) {
        if (slot.home == Slot::Home::kInput && slot.input >= 0) {
          entry.shapes[static_cast<size_t>(slot.input)] = slot.shape;
        }
      }
      if (entries_.size() > kKeptPlans) entries_.pop_back();
    }
    Enter(entries_.front());
  }
  Execute(bound.inputs, const_cast<std::vector<Tensor>&>(bound.outputs));
}

void Session::Execute(std::span<const void* const> inputs, std::vector<Tensor>& results) {
  const Plan& plan = *current_->plan;
  const RunContext context(plan.slots, arena_.data(), inputs, options_.runner);
  const bool timed = options_.profile && options_.now != nullptr;
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const double start = timed ? options_.now() : 0;
    plan.steps[i]->Run(context);
    if (timed) {
      current_->profile[i].milliseconds += options_.now() - start;
      ++current_->profile[i].runs;
    }
  }
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    const int slot = plan.outputs[i];
    const Slot& place = context.slot(slot);
    if (i == results.size()) results.emplace_back(place.dtype, place.shape);
    if (place.bytes > 0) std::memcpy(results[i].raw(), context.Read(slot), place.bytes);
  }
}

void Session::PrepareFor(const TensorMap& feeds) {
  std::vector<const void*> inputs;
  Find(feeds, inputs);
}

bool Session::LacksLowBits() const {
  if (current_ == nullptr) return false;
  return current_->program ? current_->program->LacksLowBits()
                           : requant::LacksLowBits(*current_->plan);
}

SessionMemory Session::memory() const {
  const Plan* current = plan();
  if (current_ && current_->program) return current_->program->memory();
  if (current == nullptr) return {};
  return {current->arena_bytes, current->arena_lower_bound, current->packed_bytes};
}

std::vector<StepProfile> Session::Profile() const {
  if (current_ == nullptr) return {};
  return current_->program ? current_->program->Profile() : current_->profile;
}

}  // namespace requant
