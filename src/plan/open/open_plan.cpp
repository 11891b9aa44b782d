#include "plan/open/open_plan.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "kernels/variant/missing.h"
#include "ops/op.h"
#include "passes/shape/followed_shapes.h"
#include "plan/arena.h"
#include "plan/builder.h"
#include "plan/compile.h"
#include "plan/journal.h"
#include "plan/open/same_network.h"
#include "plan/open/used_reshape.h"
#include "plan/pack/pack_activations.h"

namespace requant {
namespace {

/// A new layout of the arena tries few placements, since it delays a run.
constexpr int kFewTries = 2;

/// Whether the shapes differ in dimensions above 1 only.
bool CanFollow(const std::vector<Shape>& before, const std::vector<Shape>& shapes) {
  return std::equal(before.begin(), before.end(), shapes.begin(), shapes.end(),
                    [](const Shape& a, const Shape& b) {
                      return std::equal(
                          a.begin(), a.end(), b.begin(), b.end(),
                          [](int64_t x, int64_t y) { return x == y || std::min(x, y) > 1; });
                    });
}

class FollowingPlan : public OpenPlan {
 public:
  static OpenPlanResult Make(const PreparedModel& model, const std::vector<Shape>& before,
                             const std::vector<Shape>& shapes, const PlanOptions& options);
  Outcome Reshape(const std::vector<Shape>& shapes) override;
  std::shared_ptr<const Plan> plan() const override { return plan_; }

 private:
  FollowingPlan(const PreparedModel& model, const std::vector<Shape>& shapes,
                const PlanOptions& options);

  /// Whether the plan can have these shapes, as far as the inputs tell.
  bool Allows(const std::vector<Shape>& shapes) const;
  /// Relates the nodes and values of the prepared model to those of the plan's graph. Returns false
  /// where passes make another network for the shapes `before`.
  bool Relate(const PreparedModel& model, const std::vector<Shape>& before);
  /// Makes the plan. Returns false where it packs values of few bits, which cannot be done again.
  bool Compile();
  /// Sets the types and constants of the plan's graph, and marks what has to be lowered again.
  bool Retype(const std::vector<Shape>& shapes);
  void MarkReaders(const Value& value);
  bool LowerAgain(size_t index);
  bool LowerMarked();
  /// Gives the slots their memory, with room for those that grow.
  void LayOut(int tries);

  /// How a constant that is computed from shapes reaches the plan's graph.
  struct Source {
    Value* value = nullptr;             // the constant of that name in the plan's graph
    bool fixed = false;                 // a pass has used up its contents, so they must not change
    std::vector<UsedReshape> reshapes;  // of which it is the target, and which must stay the same
  };

  PlanOptions options_;
  FollowedShapes followed_;
  std::vector<Shape> shapes_;
  std::vector<std::vector<uint8_t>> open_;  // for each input and axis, whether it may change
  std::vector<Source> sources_;             // indexed by positions of values of the prepared model
  std::vector<uint8_t> vanished_;  // nodes of the prepared model whose outputs became constants
  std::shared_ptr<Plan> plan_;
  PlanJournal journal_;
  std::unique_ptr<PlanBuilder> builder_;
  // Indexed by positions of nodes of the plan's graph.
  std::vector<uint8_t> marked_;
  std::vector<const Node*> twins_;  // of the prepared model, where both compute the same values
  std::vector<size_t> lowered_by_;  // the entry of the journal that has the node's steps
  std::vector<uint8_t> lower_;      // indexed by entries of the journal
  // Indexed by slots.
  std::vector<int> made_roots_;   // as lowering left them
  std::vector<int> laid_roots_;   // as the arena's layout left them
  std::vector<size_t> reserved_;  // bytes that the layout gave
  std::vector<uint8_t> grows_;    // whether the slot was ever made again
  std::vector<size_t> again_;     // slots of this Reshape
  bool lay_out_ = false;
};

FollowingPlan::FollowingPlan(const PreparedModel& model, const std::vector<Shape>& shapes,
                             const PlanOptions& options)
    : options_(options), followed_(model.Clone().Release(), shapes), shapes_(shapes) {}

OpenPlanResult FollowingPlan::Make(const PreparedModel& model, const std::vector<Shape>& before,
                                   const std::vector<Shape>& shapes, const PlanOptions& options) {
  if (!CanFollow(before, shapes)) return {};
  std::unique_ptr<FollowingPlan> made(new FollowingPlan(model, shapes, options));
  if (!made->followed_.ready()) return {nullptr, true};
  for (size_t i = 0; i < shapes.size(); ++i) {
    std::vector<uint8_t>& axes = made->open_.emplace_back();
    for (size_t axis = 0; axis < shapes[i].size(); ++axis) {
      axes.push_back(before[i][axis] != shapes[i][axis]);
    }
  }
  SpecializedModel special = Specialize(model.Clone(), shapes);
  if (!special.is_static()) return {nullptr, true};
  made->plan_ = std::make_shared<Plan>();
  made->plan_->graph = std::make_unique<Graph>(std::move(special).Release());
  FoldForRun(*made->plan_->graph);
  if (!made->Relate(model, before) || !made->Compile()) return {nullptr, true};
  return {std::move(made), false};
}

bool FollowingPlan::Relate(const PreparedModel& model, const std::vector<Shape>& before) {
  const Graph& from = followed_.graph();
  const Graph& to = *plan_->graph;
  std::vector<uint8_t> lives(from.nodes().size());
  vanished_.assign(from.nodes().size(), 0);
  twins_.assign(to.nodes().size(), nullptr);
  size_t living = 0;
  for (const auto& node : from.nodes()) {
    const Node* twin = to.FindNode(node->name);
    if (twin && SameWiring(*node, *twin)) {
      lives[node->position] = 1;
      ++living;
      if (SameStaticTypes(node->outputs, twin->outputs)) twins_[twin->position] = node.get();
      continue;
    }
    vanished_[node->position] =
        !followed_.IsFolded(*node) &&
        std::any_of(node->outputs.begin(), node->outputs.end(), [&](const Value* output) {
          const Value* same = output ? to.FindValue(output->name) : nullptr;
          return same && same->is_constant();
        });
  }
  sources_.resize(from.values().size());
  for (const auto& value : from.values()) {
    if (!value->is_constant() || value->producer == nullptr) continue;
    Source& source = sources_[value->position];
    Value* same = to.FindValue(value->name);
    source.value = same && same->is_constant() ? same : nullptr;
    for (const Node* reader : value->consumers) {
      if (followed_.IsFolded(*reader)) continue;
      if (lives[reader->position] && source.value) continue;
      const Value* from = reader->input(0);
      const Value* result = reader->output();
      if ((reader->Is(Op::kReshape) || reader->Is(Op::kExpand)) &&
          reader->input(1) == value.get() && from->type.IsStatic() && result->type.IsStatic()) {
        source.reshapes.push_back({reader, from->type.StaticShape(), result->type.StaticShape()});
      } else {
        source.fixed = true;
      }
    }
  }
  if (living == to.nodes().size()) return true;
  // Passes made nodes for these shapes. What they wrote into them must not follow from dimensions
  // that change, so it must be the same for the shapes before.
  SpecializedModel other = Specialize(model.Clone(), before);
  Graph graph = std::move(other).Release();
  FoldForRun(graph);
  return SameNetwork(to, graph, [&](const std::string& name) {
    const Value* value = from.FindValue(name);
    return value && value->is_constant();
  });
}

bool FollowingPlan::Compile() {
  plan_->threads = std::max(options_.threads, 1);
  builder_ = std::make_unique<PlanBuilder>(*plan_, options_, &journal_);
  LowerAll(*builder_, *plan_);
  if (MissingLowBits() == nullptr) {
    // Lowering a node again would not repeat what this changes.
    const size_t slots = plan_->slots.size();
    kPackActivations(*plan_, options_);
    const auto packed = [](const Slot& slot) { return slot.packed || slot.planes > 0; };
    if (plan_->slots.size() != slots ||
        std::any_of(plan_->slots.begin(), plan_->slots.end(), packed)) {
      return false;
    }
  }
  marked_.resize(plan_->graph->nodes().size());
  lowered_by_.resize(plan_->graph->nodes().size());
  for (size_t i = 0; i < journal_.nodes.size(); ++i) {
    const LoweredNode& made = journal_.nodes[i];
    if (made.node) lowered_by_[made.node->position] = i;
    for (const Node* node : made.absorbed) lowered_by_[node->position] = i;
  }
  for (const Source& source : sources_) {
    if (source.value == nullptr) continue;
    for (const Node* reader : source.value->consumers) {
      journal_.nodes[lowered_by_[reader->position]].fresh = true;
    }
  }
  lower_.resize(journal_.nodes.size());
  for (const Slot& slot : plan_->slots) made_roots_.push_back(slot.root);
  grows_.resize(plan_->slots.size());
  reserved_.resize(plan_->slots.size());
  LayOut(kMostPlacements);
  return true;
}

bool FollowingPlan::Allows(const std::vector<Shape>& shapes) const {
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (shapes[i].size() != shapes_[i].size()) return false;
    for (size_t axis = 0; axis < shapes[i].size(); ++axis) {
      if (shapes[i][axis] == shapes_[i][axis]) continue;
      if (!open_[i][axis] || shapes[i][axis] <= 1) return false;
    }
  }
  return true;
}

OpenPlan::Outcome FollowingPlan::Reshape(const std::vector<Shape>& shapes) {
  if (!Allows(shapes)) return Outcome::kOther;
  try {
    if (!followed_.Follow(shapes) || !Retype(shapes) || !LowerMarked()) return Outcome::kBroken;
  } catch (const Error&) {
    // A plan of its own reports what is wrong with these shapes.
    return Outcome::kBroken;
  }
  shapes_ = shapes;
  return Outcome::kDone;
}

void FollowingPlan::MarkReaders(const Value& value) {
  for (const Node* node : value.consumers) marked_[node->position] = 1;
}

bool FollowingPlan::Retype(const std::vector<Shape>& shapes) {
  Graph& graph = *plan_->graph;
  std::fill(marked_.begin(), marked_.end(), uint8_t{0});
  std::fill(lower_.begin(), lower_.end(), uint8_t{0});
  for (const Node* node : followed_.touched()) {
    if (vanished_[node->position]) return false;
  }
  for (const Value* value : followed_.changed_constants()) {
    const Source& source = sources_[value->position];
    if (source.fixed || !std::all_of(source.reshapes.begin(), source.reshapes.end(),
                                     [](const UsedReshape& used) { return used.IsTheSame(); })) {
      return false;
    }
    if (source.value == nullptr) continue;
    source.value->constant = value->constant;
    source.value->type = value->type;
    MarkReaders(*source.value);
  }
  size_t next = 0;
  for (Value* input : graph.inputs()) {
    if (input->is_constant()) continue;
    Slot& place = plan_->slots[next];  // the first slots are those of the inputs
    const Shape& shape = shapes[next++];
    if (place.shape == shape) continue;
    input->type.shape = ToSymbolic(shape);
    place.shape = shape;
    place.bytes = DTypeBytes(place.dtype, static_cast<size_t>(NumElements(shape)));
    MarkReaders(*input);
  }
  std::vector<ValueType> types;
  for (size_t i = 0; i < marked_.size(); ++i) {
    if (!marked_[i]) continue;
    const Node& node = *graph.nodes()[i];
    lower_[lowered_by_[i]] = 1;
    const Node* twin = twins_[i];
    if (twin == nullptr) {
      types = InferNode(graph, node);
      types.resize(node.outputs.size());
    }
    for (size_t slot = 0; slot < node.outputs.size(); ++slot) {
      Value* output = node.outputs[slot];
      if (output == nullptr) continue;
      const ValueType& type = twin ? twin->outputs[slot]->type : types[slot];
      if (SameStaticType(output->type, type)) continue;
      if (!type.IsStatic() || type.dtype != output->type.dtype) return false;
      output->type = type;
      MarkReaders(*output);
    }
  }
  return true;
}

bool FollowingPlan::LowerAgain(size_t index) {
  LoweredNode& made = journal_.nodes[index];
  if (made.once) return false;
  const auto slots = plan_->slots.begin();
  const std::vector<Slot> before(
      std::make_move_iterator(slots + static_cast<ptrdiff_t>(made.first_slot)),
      std::make_move_iterator(slots + static_cast<ptrdiff_t>(made.slots_end)));
  std::vector<uint8_t> overwrote;
  for (size_t i = made.first_step; i < made.steps_end; ++i) {
    overwrote.push_back(plan_->steps[i]->may_overwrite);
  }
  const std::vector<const Node*> absorbed = made.absorbed;
  std::vector<std::pair<const Value*, CodeRange>> ranges;
  for (const auto& [value, layout] : made.places) {
    if (IsByte(value->type.dtype)) ranges.emplace_back(value, builder_->RangeOf(value));
  }
  builder_->BeginAgain(index);
  if (made.node) {
    LowerNode(*builder_, *made.node);
  } else {
    LowerOutputs(*builder_, *plan_);
  }
  builder_->End();
  if (made.absorbed != absorbed) return false;
  for (const auto& [value, range] : ranges) {
    if (builder_->RangeOf(value) != range) return false;
  }
  for (size_t i = 0; i < before.size(); ++i) {
    const size_t at = made.first_slot + i;
    Slot& slot = plan_->slots[at];
    const Slot& old = before[i];
    if (slot.layout != old.layout || slot.home != old.home || slot.dtype != old.dtype) return false;
    slot.offset = old.offset;
    slot.first_step = old.first_step;
    slot.last_step = old.last_step;
    lay_out_ = lay_out_ || slot.bytes > reserved_[at];
    again_.push_back(at);
    grows_[at] = 1;
    if (const auto joined = journal_.joined_by.find(static_cast<int>(at));
        joined != journal_.joined_by.end()) {
      lower_[joined->second] = 1;
    }
  }
  for (size_t i = made.first_step; i < made.steps_end; ++i) {
    lay_out_ = lay_out_ || plan_->steps[i]->may_overwrite != overwrote[i - made.first_step];
  }
  return true;
}

bool FollowingPlan::LowerMarked() {
  for (size_t i = 0; i < made_roots_.size(); ++i) plan_->slots[i].root = made_roots_[i];
  again_.clear();
  lay_out_ = false;
  const LoweredNode& outputs = journal_.nodes.back();
  lower_.back() = outputs.slots_end > outputs.first_slot;
  for (size_t i = 0; i < lower_.size(); ++i) {
    if (lower_[i] && !LowerAgain(i)) return false;
  }
  // An operator whose output is another slot's memory now is another plan.
  for (const size_t at : again_) {
    if (plan_->slots[at].root != made_roots_[at]) return false;
  }
  if (lay_out_) {
    LayOut(kFewTries);
  } else {
    for (size_t i = 0; i < laid_roots_.size(); ++i) plan_->slots[i].root = laid_roots_[i];
  }
  return true;
}

void FollowingPlan::LayOut(int tries) {
  // An eighth more than now, so that most of the next shapes fit.
  std::vector<size_t> bytes;
  for (size_t i = 0; i < plan_->slots.size(); ++i) {
    Slot& slot = plan_->slots[i];
    bytes.push_back(slot.bytes);
    if (grows_[i] && slot.home == Slot::Home::kArena) slot.bytes += slot.bytes / 8;
    reserved_[i] = slot.bytes;
    slot.first_step = slot.last_step = -1;
  }
  plan_->used_memory.clear();
  LayOutArena(*plan_, true, tries);
  laid_roots_.clear();
  for (size_t i = 0; i < plan_->slots.size(); ++i) {
    plan_->slots[i].bytes = bytes[i];
    laid_roots_.push_back(plan_->slots[i].root);
  }
}

}  // namespace

OpenPlanResult MakeOpenPlan(const PreparedModel& model, const std::vector<Shape>& before,
                            const std::vector<Shape>& shapes, const PlanOptions& options) {
  try {
    return FollowingPlan::Make(model, before, shapes, options);
  } catch (const Error&) {
    // A plan of its own reports what is wrong with these shapes.
    return {};
  }
}

}  // namespace requant
