// Stores values of few codes in the arena two to a byte (kernels/bitserial/nibbles.h) or as bit
// planes (kernels/bitserial/planes.h).
#pragma once

#include "base/late_function.h"
#include "plan/plan.h"

namespace requant {

/// Rewrites the plan where all conditions hold:
///
///   Before      a value has a byte for each element
///   After       it is bit planes
///   Conditions  a convolution for few bits, a max pool, or a table of two results computes it;
///               only convolutions that count bits read it, or it is one plane and lookups read it,
///               as inputs or residuals; its channels (of a group) are a multiple of 32; nothing
///               else shares its memory.
///
///   Before      value -> table, such as that of signs -> convolutions
///   After       value, as planes -> convolutions
///   Conditions  as above, and the table leaves the planes as they are: neighboring codes stay
///               neighbors, or become every other code
///
///   Before      a value has a byte for each element
///   After       it has half a byte for each
///   Conditions  `compact` is set; the step that computes it and all that read it are
///               convolutions, depthwise ones too, or additions whose kernels can pack and unpack;
///               it has at most 16 neighboring codes; its channels (of a group) are a multiple
///               of 8; nothing else shares its memory.
///
/// The integers stay the same. Planes save time and memory; half bytes cost a few percent of time.
/// A tuning record (Tuned::output) of the step that computes the value decides where both are
/// possible.
void PackActivations(Plan& plan, const PlanOptions& options);

/// The extended operators, and so this function, are loaded with the kernels for few bits.
extern const LateFunction<decltype(PackActivations)> kPackActivations;

}  // namespace requant
