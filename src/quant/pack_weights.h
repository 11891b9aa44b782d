#pragma once

#include "ir/graph.h"

namespace requant {

/// The same graph with a bit for each element of large constants that have two values only (weights
/// of -1 and 1, as int8 or as floats), spelled in ONNX's own operators: BitShift, Mod, Cast,
/// Gather. Every engine folds them when it loads the file. Throws kUnsupported below opset 13.
Graph PackTwoValues(const Graph& source);

}  // namespace requant
