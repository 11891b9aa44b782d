// The classes of steps, for saved plans: steps.inc lists them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>

#include "plan/archive.h"
#include "plan/plan.h"

namespace requant {

enum class StepKind : uint8_t {
#define STEP(name, late) k##name,
#include "plan/lower/steps.inc"
#undef STEP
};

/// By kind: whether its code is among the extended operators.
inline constexpr bool kStepIsLate[] = {
#define STEP(name, late) late,
#include "plan/lower/steps.inc"
#undef STEP
};

inline bool IsLate(StepKind kind) { return kStepIsLate[static_cast<size_t>(kind)]; }
inline bool IsStepKind(StepKind kind) { return static_cast<size_t>(kind) < std::size(kStepIsLate); }

/// An empty step of that kind, whose code must be loaded.
std::unique_ptr<Step> NewStep(StepKind kind);  // table.cpp

// One function for each kind, in the file of its class.
#define STEP(name, late) std::unique_ptr<Step> New##name##Step();
#include "plan/lower/steps.inc"
#undef STEP

/// Defines what makes empty steps of a kind.
#define RQ_STEP(name, ...) \
  std::unique_ptr<Step> New##name##Step() { return std::make_unique<__VA_ARGS__>(); }

/// The base of the class of a kind.
template <StepKind kKind>
class StepOf : public Step {
 public:
  StepKind kind() const override { return kKind; }
};

}  // namespace requant
