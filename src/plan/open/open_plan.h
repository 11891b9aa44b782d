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

#include "base/late_function.h"
#include "plan/plan.h"
#include "plan/stages.h"

namespace requant {

class OpenPlan {
 public:
  virtual ~OpenPlan() = default;

  enum class Outcome : uint8_t {
    kDone,
    kOther,   // these shapes need a plan of their own; this one is as before
    kBroken,  // they do, and this plan cannot be used any more
  };
  /// Changes the plan into one for these shapes.
  virtual Outcome Reshape(const std::vector<Shape>& shapes) = 0;

  /// The plan, which Reshape changes in place.
  virtual std::shared_ptr<const Plan> plan() const = 0;
};

/// The result of MakeOpenPlan: a plan, or nullptr and the reason.
struct OpenPlanResult {
  std::unique_ptr<OpenPlan> plan;
  /// Whether no other shapes would do: passes made different networks of the model for the two, or
  /// lowering could not be repeated.
  bool never = false;
};

/// Plans `model` for `shapes`, so that the dimensions in which `before` differs can change later. A
/// dimension of 0 or 1 cannot, since it may broadcast or vanish.
OpenPlanResult MakeOpenPlan(const PreparedModel& model, const std::vector<Shape>& before,
                            const std::vector<Shape>& shapes, const PlanOptions& options);

/// Models whose shapes change often have attention or other products of computed matrices, with
/// which the extended operators are loaded.
extern const LateFunction<decltype(MakeOpenPlan)> kMakeOpenPlan;

}  // namespace requant
