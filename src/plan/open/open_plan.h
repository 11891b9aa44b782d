// A plan that follows the shapes of its inputs: a step of a decoder lengthens its past by one, and
// a new plan for that would differ in few steps.
//
//   prepared model --FollowedShapes--> types and shape arithmetic for the new shapes
//        |                                   | changed constants
//   specialized graph ----------------> types of the plan's graph
//                                            | nodes whose types or constants changed
//   journal (what each node made) ----> their steps and slots, made again in their places
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "passes/shape/followed_shapes.h"
#include "plan/builder.h"
#include "plan/open/journal.h"
#include "plan/plan.h"
#include "plan/stages.h"

namespace requant {

class OpenPlan {
 public:
  /// Whether a plan for `shapes` could follow the dimensions in which `before` differs, as far as
  /// the shapes tell: a dimension of 0 or 1 may broadcast or vanish.
  static bool CanFollow(const std::vector<Shape>& before, const std::vector<Shape>& shapes);

  /// Plans `model` for `shapes`, so that the dimensions in which `before` differs can change later.
  /// The shapes must pass CanFollow. Returns nullptr where passes made different networks of the
  /// model for the two, or where lowering could not be repeated.
  static std::unique_ptr<OpenPlan> Make(const PreparedModel& model,
                                        const std::vector<Shape>& before,
                                        const std::vector<Shape>& shapes,
                                        const PlanOptions& options);

  enum class Outcome : uint8_t {
    kDone,
    kOther,   // these shapes need a plan of their own; this one is as before
    kBroken,  // they do, and this plan cannot be used any more
  };
  /// Changes the plan into one for these shapes.
  Outcome Reshape(const std::vector<Shape>& shapes);

  /// The plan, which Reshape changes in place.
  std::shared_ptr<const Plan> plan() const { return plan_; }

 private:
  OpenPlan(const PreparedModel& model, const std::vector<Shape>& shapes,
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
    Value* value = nullptr;  // the constant of that name in the plan's graph
    bool fixed = false;      // a pass has used up its contents, so they must not change
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

}  // namespace requant
