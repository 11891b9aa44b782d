#pragma once

#include "ir/graph.h"

namespace requant {

/// Whether a mask is cut out of a square one to fit scores [.., S, T] of open lengths, as exporters
/// of GPT-2 and similar models write it:
///   mask = Slice(Slice(square, T - S, T, axis -2), 0, T, axis -1)   (or rows 0 to S)
/// where S and T are read from the shapes of the scores' operands. Such a mask fits whenever the
/// graph runs at all: its lengths are S and T, or the operator that joins both fails.
bool IsCutOutFor(const Value* mask, const Value* scores);

}  // namespace requant
