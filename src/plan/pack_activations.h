// Values of few codes in the arena: two to a byte (kernels/bitserial/nibbles.h), or as planes of
// bits (kernels/bitserial/planes.h).
#pragma once

#include "plan/plan.h"

namespace requant {

/// Before / After / Conditions:
///   a value has a byte for each element / is planes of bits
///   a convolution for few bits or a max pool computes it and only convolutions that count bits
///   read it, or it is one plane and lookups read it, as inputs or residuals; its channels (of a
///   group) are a multiple of 32, and nothing else shares its memory.
///
///   a value has a byte for each element / has half a byte
///   `compact`, the step that computes it and all that read it are convolutions, depthwise ones
///   too, or additions whose kernels can pack and unpack, it leaves out all but 16 neighbouring
///   codes, its channels (of a group) are a multiple of 8, and nothing else shares its memory.
///
/// The same integers. Planes save time and memory, halves of bytes cost a few percent of time.
/// A record of tune() (Tuned::output) for the step that computes the value may decide otherwise
/// where both are possible.
void PackActivations(Plan& plan, const PlanOptions& options);

/// Called through a pointer: the function is among the rarer operators, which are loaded with the
/// kernels.
extern void (*const kPackActivations)(Plan& plan, const PlanOptions& options);

}  // namespace requant
