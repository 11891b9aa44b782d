// Values of at most 16 codes, two to a byte in the arena (kernels/bitserial/nibbles.h).
#pragma once

#include "plan/plan.h"

namespace requant {

/// Before / After / Conditions:
///   a value has a byte for each element / has half a byte
///   the step that computes it and all that read it are convolutions or additions whose kernels can
///   pack and unpack, it leaves out all but 16 neighbouring codes, its channels (of a group) are a
///   multiple of 8, and nothing else shares its memory.
/// The same integers; half the memory, for a few percent of time.
void PackActivations(Plan& plan);

/// Called through a pointer: the function is among the tools, which are loaded with the kernels.
extern void (*const kPackActivations)(Plan& plan);

}  // namespace requant
