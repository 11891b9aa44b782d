// These functions tell which steps can write and read bit planes (kernels/bitserial/planes.h).
#pragma once

#include "plan/builder.h"
#include "plan/plan.h"

namespace requant {

/// The codes of a value: all of a range or, if they are spread, every other one from the least on.
struct PlaneCodes {
  CodeRange range;
  int32_t spread = 0;

  bool operator==(const PlaneCodes&) const = default;
};

/// The number of bit planes that hold these codes.
int32_t PlanesOf(PlaneCodes codes);

/// The codes that a lookup makes of `codes` if their planes are those of `codes` as they are:
/// neighbors stay neighbors, or become every other code. Else an empty range.
PlaneCodes LookedUp(const Step& lookup, CodeRange codes);

/// The codes that the step computes. `lookup` is the step that computes what it reads, if that is a
/// lookup.
PlaneCodes PlaneCodesOf(Step& step, Step* lookup);

/// Whether the step can write its result, of these codes, as bit planes; a lookup can if
/// BitLookup() stands for it.
bool CanWritePlanes(Step& step, PlaneCodes codes);

/// Whether the step can read bit planes of exactly these codes where it reads `slot`, as an input
/// or a residual.
bool CanReadPlanes(Step& step, int slot, PlaneCodes codes);

/// The lookup, which makes two codes, as a step that writes a bit plane.
std::unique_ptr<Step> BitLookup(const Step& lookup);

}  // namespace requant
