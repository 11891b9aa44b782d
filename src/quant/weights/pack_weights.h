#pragma once

#include "ir/graph.h"

namespace requant {

/// A copy of the graph with one bit for each element of large constants that have only two values
/// (weights of -1 and 1, as int8 or floats), expressed in ONNX's own operators: BitShift, Mod,
/// Cast, Gather. Every engine folds them when it loads the file. Throws kUnsupported below opset
/// 13.
Graph PackTwoValues(const Graph& source);

}  // namespace requant
