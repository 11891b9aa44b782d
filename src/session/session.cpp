#include "session/session.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/attention/int8_attention.h"
#include "plan/saved/save.h"
#include "session/program.h"

namespace requant {
namespace {

constexpr size_t kKeptPlans = 4;
/// So many shapes get plans of their own before one plan follows the shapes.
constexpr int kShapesBeforeOpenPlan = 4;

}  // namespace

Session::Session(PreparedModel model, SessionOptions options) : Session(std::move(options)) {
  std::optional<bool>& int8 = options_.plan.int8_activations;
  int8 = int8.value_or(AllowsInt8Attention(model.graph()));
  model_ = std::move(model);
}

Session::Session(SessionOptions options) : options_(std::move(options)) {
  const int most = options_.runner ? options_.runner->threads() : 1;
  int& threads = options_.plan.threads;
  threads = threads > 0 ? std::min(threads, most) : most;
}

Session::Session(const SharedBytes& saved_plan, SessionOptions options)
    : Session(std::move(options)) {
  Entry& entry = Load(saved_plan);
  only_ = entry.execution;
  Enter(entry);
}

Session::Entry& Session::Load(const SharedBytes& saved_plan) {
  SavedFile file = OpenSaved(saved_plan, options_.plan.threads);
  Entry entry;
  if (file.kind == SavedKind::kProgram) {
    if (!file.operators || !kLoadProgram.loaded()) DamagedPlan("its header does not fit");
    entry.execution = kLoadProgram(std::move(file), options_);
  } else {
    LoadedPlan loaded = LoadPlan(std::move(file));
    entry.execution = std::make_shared<PlanExecution>(std::move(loaded.plan),
                                                      std::move(loaded.graph), options_, arena_);
  }
  for (const Value* input : entry.execution->interface().inputs()) {
    entry.shapes.push_back(input->type.StaticShape());
  }
  return entries_.emplace_back(std::move(entry));
}

std::vector<uint8_t> Session::Save(const Entry& entry) {
  std::shared_ptr<Execution> execution = entry.execution;
  if (execution == open_program_ || execution == open_execution_) {
    execution = MakeExecution(model_->Clone(), entry.shapes);
  }
  return execution->Save(graph(), entry.shapes);
}

std::vector<uint8_t> Session::Save() {
  // The saved form serves all values of the switches.
  if (variant_) EntryFor(variant_shapes_);
  if (current_ == nullptr) {
    Fail(ErrorCode::kUnsupported, "there is no plan to save",
         {.hint = "run the session once, so that the shapes are known"});
  }
  return Save(*current_);
}

void Session::Enter(Entry& entry) {
  variant_ = nullptr;
  current_ = nullptr;  // while there is no memory for it
  entry.execution->Enter();
  current_ = &entry;
}

std::shared_ptr<Execution> Session::MakeExecution(PreparedModel model,
                                                  const std::vector<Shape>& shapes) {
  SpecializedModel specialized = Specialize(std::move(model), shapes);
  if (specialized.is_static()) {
    std::shared_ptr<const Plan> plan = CompilePlan(std::move(specialized), options_.plan);
    std::shared_ptr<const Graph> interface = {plan, plan->graph.get()};
    return std::make_shared<PlanExecution>(std::move(plan), std::move(interface), options_, arena_);
  }
  if (model_ && !dynamic_) NoteDynamicValues(specialized.graph());
  SessionOptions options = options_;
  options.plan.visit = false;  // a part's outputs are visited when all parts have run
  options.plan.state.clear();
  return std::make_shared<Program>(specialized.graph(), options);
}

void Session::NoteDynamicValues(const Graph& specialized) {
  const auto bodies = [](const Graph& graph) {
    return std::count_if(graph.nodes().begin(), graph.nodes().end(),
                         [](const auto& node) { return node->has_subgraph(); });
  };
  // A branch that these shapes decide is no part of a program for all shapes.
  if (options_.plan.visit || bodies(specialized) != bodies(model_->graph())) return;
  dynamic_.emplace();
  for (const auto& node : specialized.nodes()) {
    if (IsPlannable(*node)) continue;
    for (const Value* output : node->outputs) {
      if (output) dynamic_->insert(output->name);
    }
  }
}

std::shared_ptr<Execution> Session::OpenProgram() {
  if (!open_program_ && dynamic_) {
    SessionOptions options = options_;
    options.plan.state.clear();
    open_program_ = std::make_shared<Program>(model_->graph(), options, &*dynamic_);
  }
  return open_program_;
}

std::shared_ptr<Execution> Session::Reshaped(const std::vector<Shape>& shapes) {
  if (!open_plan_) return nullptr;
  const OpenPlan::Outcome outcome = open_plan_->Reshape(shapes);
  if (outcome == OpenPlan::Outcome::kBroken) ForgetOpenPlan();
  if (outcome != OpenPlan::Outcome::kDone) return nullptr;
  RemoveOpenEntry();
  return open_execution_;
}

std::shared_ptr<Execution> Session::MakeOpenPlan(const std::vector<Shape>& shapes) {
  // Programs that use few shapes keep a plan for each.
  if (never_open_ || options_.plan.visit || entries_.empty() || !kMakeOpenPlan.loaded() ||
      ++plans_made_ < (options_.plan.state.empty() ? kShapesBeforeOpenPlan : 1)) {
    return nullptr;
  }
  OpenPlanResult made = kMakeOpenPlan(*model_, entries_.front().shapes, shapes, options_.plan);
  never_open_ = made.never;
  if (!made.plan) return nullptr;
  plans_made_ = 0;
  ForgetOpenPlan();
  open_plan_ = std::move(made.plan);
  const std::shared_ptr<const Plan> plan = open_plan_->plan();
  open_execution_ = std::make_shared<PlanExecution>(
      plan, std::shared_ptr<const Graph>(plan, plan->graph.get()), options_, arena_);
  return open_execution_;
}

void Session::RemoveOpenEntry() {
  if (current_ && current_->execution == open_execution_) current_ = nullptr;
  entries_.remove_if([&](const Entry& entry) { return entry.execution == open_execution_; });
}

void Session::ForgetOpenPlan() {
  if (open_execution_) RemoveOpenEntry();
  open_execution_.reset();
  open_plan_.reset();
}

void Session::SharePackedWeights() {
  if (shares_weights_) return;
  shares_weights_ = true;
  model_->FoldConstants();
  model_->LeanConstants();
  options_.plan.packed =
      std::make_shared<PackedWeights>(model_->graph(), std::move(options_.plan.packed));
}

Session::Entry& Session::EntryFor(std::vector<Shape> shapes, Need need) {
  const bool only = need == Need::kOnly;
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.shapes == shapes && (need == Need::kAny || entry.execution != open_program_);
  });
  if (found != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, found);
  } else {
    if (!only) SharePackedWeights();
    Entry entry;
    if (need == Need::kAny) entry.execution = OpenProgram();
    if (!entry.execution && !only) entry.execution = Reshaped(shapes);
    if (!entry.execution && !only) entry.execution = MakeOpenPlan(shapes);
    if (!entry.execution) {
      // With a single plan the session keeps no model beside it.
      PreparedModel source = only ? std::move(*model_) : model_->Clone();
      if (only) model_.reset();
      entry.execution = MakeExecution(std::move(source), shapes);
    }
    entry.shapes = std::move(shapes);
    if (only) only_ = entry.execution;
    entries_.push_front(std::move(entry));
    if (entries_.size() > kKeptPlans) entries_.pop_back();
  }
  Enter(entries_.front());
  return *current_;
}

bool Session::Prepare() {
  std::vector<Shape> shapes;
  for (const Value* input : graph().inputs()) {
    if (input->is_constant()) continue;
    if (!input->type.IsStatic()) return false;
    shapes.push_back(input->type.StaticShape());
  }
  return EntryFor(std::move(shapes), Need::kOnly).execution->plan() != nullptr;
}

Session::Entry& Session::Find(const TensorMap& feeds, std::vector<const void*>& inputs, Need need) {
  std::vector<Shape> shapes;
  std::map<std::string, int64_t> symbols;
  if (!model_ && !only_) Fail(ErrorCode::kInternal, "the session could not be planned");
  for (const Value* input : graph().inputs()) {
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
      const Value* value = graph().FindValue(name);
      if (value == nullptr || !graph().IsInput(value) || value->is_constant()) {
        Fail(ErrorCode::kInvalidArgument, StrCat("the model has no input '", name, "'"),
             {.value = name, .hint = "see inputNames"});
      }
    }
  }
  return EntryFor(std::move(shapes), need);
}

bool Session::EnterVariant(const TensorMap& feeds, TensorMap& rest) {
  variant_ = nullptr;
  if (!looked_for_variants_ && model_ && kMakeVariants.loaded() && !options_.plan.visit) {
    looked_for_variants_ = true;
    const auto& nodes = model_->graph().nodes();
    if (std::any_of(nodes.begin(), nodes.end(),
                    [](const auto& node) { return node->has_subgraph(); })) {
      SharePackedWeights();
      variants_ = kMakeVariants(*model_, options_);
    }
  }
  if (!variants_) return false;
  std::vector<Shape> shapes;
  for (const Value* input : graph().inputs()) {
    if (input->is_constant()) continue;
    const auto feed = feeds.find(input->name);
    if (feed == feeds.end()) return false;
    shapes.push_back(feed->second.shape());
  }
  rest = feeds;
  variant_ = variants_->For(rest);
  if (variant_) variant_shapes_ = std::move(shapes);
  return variant_ != nullptr;
}

std::vector<Tensor> Session::Run(const TensorMap& feeds) {
  TensorMap rest;
  if (EnterVariant(feeds, rest)) return variant_->Run(rest);
  std::vector<const void*> inputs;
  std::vector<Tensor> results;
  Find(feeds, inputs).execution->Run(feeds, inputs, results);
  return results;
}

std::unique_ptr<Session> Session::WithState(std::vector<StatePair> pairs) {
  if (!model_) {
    Fail(ErrorCode::kUnsupported, "a session of fixed shapes keeps no memory",
         {.hint = "export the model with an open number of past tokens"});
  }
  SharePackedWeights();
  SessionOptions options = options_;
  options.plan.state = std::move(pairs);
  return std::make_unique<Session>(model_->Clone(), std::move(options));
}

std::vector<Tensor> Session::Run(const TensorMap& feeds, const std::map<std::string, int64_t>& room,
                                 std::span<const uint8_t> unwanted) {
  TensorMap rest;
  if (EnterVariant(feeds, rest)) return variant_->Run(rest, room, unwanted);
  std::vector<const void*> inputs;
  std::vector<Tensor> results;
  Execution& execution = *Find(feeds, inputs).execution;
  std::vector<int64_t> rooms;
  for (const Value* input : graph().inputs()) {
    if (input->is_constant()) continue;
    const auto found = room.find(input->name);
    rooms.push_back(found == room.end() ? 0 : found->second);
  }
  execution.Run(feeds, inputs, results, {rooms, unwanted});
  return results;
}

BoundRun Session::Bind(const TensorMap& feeds) {
  BoundRun bound;
  bound.feeds = feeds;
  const Entry& entry = Find(feeds, bound.inputs, Need::kTheseShapes);
  bound.execution = entry.execution;
  bound.shapes = entry.shapes;
  bound.follows = entry.execution == open_execution_;
  bound.outputs = entry.execution->MakeResults();
  return bound;
}

void Session::Run(BoundRun& bound) {
  if (current_ == nullptr || current_->execution != bound.execution ||
      current_->shapes != bound.shapes) {
    const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
      return entry.execution == bound.execution && entry.shapes == bound.shapes;
    });
    if (bound.follows && found == entries_.end()) {
      // The plan has other shapes now, or is gone.
      bound.execution = EntryFor(bound.shapes, Need::kTheseShapes).execution;
      bound.follows = bound.execution == open_execution_;
      return bound.execution->Run(bound.feeds, bound.inputs, bound.outputs);
    }
    if (found != entries_.end()) {
      entries_.splice(entries_.begin(), entries_, found);
    } else {
      // Other shapes have evicted the bound execution's entry, so it gets a new one.
      entries_.push_front({bound.shapes, bound.execution, {}});
      if (entries_.size() > kKeptPlans) entries_.pop_back();
    }
    Enter(entries_.front());
  }
  current_->execution->Run(bound.feeds, bound.inputs, bound.outputs);
}

void Session::PrepareFor(const TensorMap& feeds) {
  TensorMap rest;
  if (EnterVariant(feeds, rest)) return variant_->PrepareFor(rest);
  std::vector<const void*> inputs;
  Find(feeds, inputs);
}

const Plan* Session::plan() const {
  if (variant_) return variant_->plan();
  return current_ ? current_->execution->plan() : nullptr;
}

const Execution* Session::execution() const {
  if (variant_) return variant_->execution();
  return current_ ? current_->execution.get() : nullptr;
}

bool Session::LacksLowBits() const {
  if (variant_) return variant_->LacksLowBits();
  return current_ && current_->execution->LacksLowBits();
}

SessionMemory Session::memory() const {
  if (variant_) return variant_->memory();
  return current_ ? current_->execution->memory() : SessionMemory();
}

std::vector<StepProfile> Session::Profile() const {
  if (variant_) return variant_->Profile();
  return current_ ? current_->execution->Profile() : std::vector<StepProfile>();
}

}  // namespace requant
